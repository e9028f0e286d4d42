package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
)

// Timeout bounds the store's operations that go on when the context of a call ends: giving slots back, and moving behind a pause.
const Timeout = 5 * time.Second

// A Config sets whose calls wait, and for what.
type Config struct {
	Upstream string
	Store    store.Store  // charges the calls
	Given    store.Store  // the store below the Member, if there is one; otherwise the Store
	Member   store.Member // the Store, if it stands in front of a shared one; nil otherwise
	Direct   bool         // the Store answers in no time

	Jitter  time.Duration // by how much a call goes later than its slot, at most
	MaxLate time.Duration // how late after its slot and its slack a call may go

	Meter *usage.Meter // counts what calls spend

	Events Events // nil if there are no hooks

	// Reread is called when what operators have set may have changed; nil if a Member looks after that.
	Reread func()
	// Reported is called with the names of limits that others report as exhausted, before that is heeded.
	Reported func(policies []string)
}

// A Request is what a call requests.
type Request struct {
	Limits   []store.Limit // that bind it
	Call     store.Call    // without ID and Reach
	HasQueue bool          // one of the limits has a queue in the store
	WillWait bool          // the owner waits until the call may go: it is queued in the process until its slot is near
	Tracked  bool          // its answer will be reported
	Untried  bool          // no request was made yet for whether the call may go at once

	Binder     Binder // binds the call anew when other policies hold; nil for one that does not wait
	Generation int64  // of the policies by which it is bound
}

// A Binder binds a call to the policies that hold now.
type Binder interface {
	// Bind returns how the policies that hold now bind the call. It is called under no lock: it calls functions of the user.
	Bind() Bound
}

// Bound is how a call is bound anew.
type Bound struct {
	Request // its request now, in memory of its own; only the Generation if it is not OK

	OK   bool   // it can be bound
	Keep func() // has its Binder remember it; called under the lock of the Dispatcher if the call is bound so
}

// ErrSpent is returned for a call that has gone or has been cancelled before.
var ErrSpent = errors.New("pacer: the reservation was used or cancelled before: make a new one")

// ErrSettled is returned for a call that was settled before.
var ErrSettled error = settledError{}

// settledError is ErrSpent in other words.
type settledError struct{}

func (settledError) Error() string {
	return "pacer: the call was settled before: settle it once, at all that it cost"
}

func (settledError) Is(target error) bool { return target == ErrSpent }

// errTimeout marks the end of MaxWait.
var errTimeout = errors.New("the longest wait is over")

// Events receive what becomes of calls. Waiting, Admitted and Answered may be called under the lock of the Dispatcher: events must not call it,
// nor block.
type Events interface {
	// Waiting is called when a call begins to wait, and when what it waits for has changed.
	Waiting(ctx context.Context, w *Wait)
	// WaitDone is called when a call that waited may go, or cannot: err is the reason.
	WaitDone(ctx context.Context, last *Wait, since time.Time, took time.Duration, err error)
	// Admitted is called when a call may go that these limits bind: after it waited for that long for that limit; nil for none. It goes
	// late by so much. It must not keep the call or the limits.
	Admitted(ctx context.Context, call *store.Call, limits []store.Limit, limit *store.Limit, waited, late time.Duration)
	// Answered is called when the answer to a call was reported, so long after the call went.
	Answered(ctx context.Context, took time.Duration)
	// Refused is called with what Wait returns to a call that does not go.
	Refused(ctx context.Context, err error)
	// PausesChanged is called with pauses and resumptions that are new to this process.
	PausesChanged(news []store.Change)
}

// A Wait is what a call waits for at present.
type Wait struct {
	Limit  *store.Limit  // nil if only NotBefore holds the call
	Cost   int64         // what the call costs that limit; its own cost if there is none
	Paused bool          // because of a pause
	Queued bool          // it has no slot yet
	Ahead  int64         // how many queued calls are before it
	At     time.Time     // when this was known
	For    time.Duration // how long from then
}

// A NotYetError is the error of a call that may not go: what it would have to wait for, and for how long.
type NotYetError struct {
	Wait

	Until      store.Instant // of a pause: until when the statement holds; Ahead is how many calls hold slots behind that
	MaxWait    time.Duration // the longest wait that was allowed
	Waited     time.Duration // how much of it was over
	About      bool          // For is an estimate
	AtLeast    bool          // the slot may be later: a calendar does not reach so far
	ByDeadline bool          // MaxWait is what the context's deadline left
	NoShare    bool          // the store is out of reach, and the process has no share without it
}

// Error implements error.
func (r *NotYetError) Error() string { return fmt.Sprintf("not yet: wait for %v", r.For) }

// Is reports whether the process has no share, if target is [store.ErrNoShare].
func (r *NotYetError) Is(target error) bool { return r.NoShare && target == store.ErrNoShare }

// A StoreError reports that a store failed.
type StoreError struct {
	Op  string // what it should do
	Err error
}

// Error implements error.
func (e *StoreError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the error of the store.
func (e *StoreError) Unwrap() error { return e.Err }

// OpReserve is the operation of a store that calls wait for, as errors name it.
const OpReserve = "reserve"

func storeError(err error) error {
	if err == nil {
		return nil
	}
	return &StoreError{Op: OpReserve, Err: err}
}

// A binding is what a call waits for, as its owner sees it: which limit, and why.
type binding struct {
	binds  int32 // as Grant.Binds
	paused bool
}

// emitted is what hooks received of a call that waits.
type emitted struct {
	since  time.Time
	reason waitReason
	last   Wait
}

// A waitReason is what causes an event when it changes.
type waitReason struct {
	at      store.Instant
	ahead   int64
	binding binding
}
