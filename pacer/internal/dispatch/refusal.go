package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// ErrSpent is returned for a call that has gone or has been cancelled before.
var ErrSpent = errors.New("pacer: the reservation was used or cancelled before: make a new one")

// ErrSettled is returned for a call that was settled before.
var ErrSettled = errors.New("pacer: the call was settled before: settle it once, at all that it cost")

// errTimeout marks the end of MaxWait.
var errTimeout = errors.New("the longest wait is over")

// Events receive what becomes of calls. Waiting, Admitted and Answered may be called under the lock of Dispatcher: events must not call them,
// nor block.
type Events interface {
	// Waiting is called when a call begins to wait, and when what it waits for has changed.
	Waiting(ctx context.Context, w *Wait)
	// WaitDone is called when a call that waited may go, or cannot: err says why.
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

// A Wait is what a call waits for, as things are.
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

	Until      store.Instant // of a pause: until when what was said holds; Ahead is how many calls hold slots behind that
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
	Op  string // what it was to do
	Err error
}

// Error implements error.
func (e *StoreError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the error of the store.
func (e *StoreError) Unwrap() error { return e.Err }

func storeError(err error) error {
	if err == nil {
		return nil
	}
	return &StoreError{Op: "reserve", Err: err}
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
