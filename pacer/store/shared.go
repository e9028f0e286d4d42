package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ErrUnreachable matches the *pacer.StoreError of a store that did not answer within pacer.Config.StoreTimeout, or that was not called
// because it did not answer before.
var ErrUnreachable = errors.New("pacer: the store is out of reach")

// ErrNoContact matches the *pacer.StoreError of a store that has never answered this process: see pacer.Config.Processes. It also matches
// ErrUnreachable.
var ErrNoContact = errors.New("pacer: the store has not answered since this process started")

// ErrNoShare matches the *pacer.StoreError of a process that lost its store so soon after it joined the fleet that others may not count it
// yet: see pacer.Config.Processes. It also matches ErrUnreachable.
var ErrNoShare = fmt.Errorf("%w, and has not known this process long enough to go on without it", ErrUnreachable)

// ErrClosed is returned by a closed decorator of a store, which begins no further operation.
var ErrClosed = errors.New("pacer: closed: make a new Pacer, or close this one only when nobody uses it")

// A Shared is a [Store] that other processes use, too, and that can be out of reach, or forget. A Pacer puts a [Member] in front of it: see
// pacer.Config.Outage. The context of an operation ends when no caller waits any longer.
//
// If a store has lost its data, or its clock stepped back, it returns an error when it reserves for a process that knows better: see
// [Stack].Epoch and [ForgotError].
type Shared interface {
	Store
	Bulk

	// ReserveAll is Reserve for several stacks of one upstream, in order, in one request. Epoch and LastSeen are those of the first stack.
	// A limit that several stacks have in common has the same Spec in all. The last grants may be [Grant].Deferred.
	ReserveAll(ctx context.Context, batches []Batch) error

	// Heartbeat reports that a process is alive, and returns what the store knows of the upstream.
	Heartbeat(ctx context.Context, upstream string, b Heartbeat) (Membership, error)

	// Fault classifies an error that the store returned.
	Fault(err error) Fault
}

// A Punctual is a [Shared] store that knows whether its operations end when their contexts do. If so, a Pacer runs them in the goroutine of
// the call. Any other store needs a second goroutine, so that the call can leave in time.
type Punctual interface {
	Shared

	// Punctual reports whether operations end when their contexts do. It always returns the same.
	Punctual() bool
}

// A Bulk is a [Store] that does much in one request.
type Bulk interface {
	// CancelAll is Cancel for several stacks of one upstream, in order, in one request. It ignores Calls. A limit that several stacks have
	// in common has the same Spec in all.
	CancelAll(ctx context.Context, batches []Batch) error

	// Pauses is Status with only Now and Paused: it is fast, however much is charged.
	Pauses(ctx context.Context, stack Stack) (StackStatus, error)
}

// A Batch is calls with the same stack, and room for as many grants: see [Store].Reserve.
type Batch struct {
	Stack  Stack
	Calls  []Call
	Grants []Grant

	_ struct{}
}

// A Heartbeat is what a process reports of itself from time to time.
type Heartbeat struct {
	ID   string        // of the process, at random
	TTL  time.Duration // for how long it is there if it sends no other; 0: it leaves
	Now  Instant       // the latest store time that it received; 0: none
	Keep time.Duration // for how long an account of the upstream can matter
	// Until is when the last answered heartbeat of the process expires, in the epoch that began at Began; 0 if none was answered. If a store
	// of that epoch knows less before Until, it has lost its last writes, and begins another epoch.
	Until, Began Instant
	// Barrier is how long a process that was without the store waits for others like it; 0 if it was not. The first process sets it for
	// all.
	Barrier time.Duration
	// Limits are those whose charges the process needs to go on by itself if it loses the store: no more than fit in one request.
	Limits []Limit

	_ struct{}
}

// A Membership is the answer to a [Heartbeat].
type Membership struct {
	Now     Instant
	Epoch   Epoch     // of the store's data
	Alive   int       // how many processes are there
	Rank    int       // how many of them came before this one
	Barrier Instant   // until when processes that were without the store wait for each other
	Holds   []Holding // what each of the Limits holds; nil: not known

	_ struct{}
}

// A Holding is what the account of a limit holds, from grants to all processes.
type Holding struct {
	Taken   time.Duration // of a rate: how much of the future is granted, as far ahead as the store looks
	Buckets []Charge      // of a window: From and To of those that still count
	Permits int64         // that are taken
	Until   Instant       // when the last of their leases runs out
}

// An Epoch distinguishes the data of a store from earlier data: a store that has lost its data begins a new one. The zero Epoch is none.
type Epoch struct {
	Began  Instant // when the data came into being
	Resets int64   // how often something of it was forgotten on purpose since; AnyResets in a Stack whose request does not depend on that
}

// AnyResets is the Resets of an [Epoch] that matches every epoch that began at the same time.
const AnyResets = -1

// Is reports whether e, the epoch of a store, is the one that a client knows.
func (e Epoch) Is(known Epoch) bool {
	return e == known || known.Resets == AnyResets && e.Began == known.Began
}

// IsZero reports whether an epoch is none.
func (e Epoch) IsZero() bool { return e.Began == 0 }

// String returns the epoch in the wire format.
func (e Epoch) String() string { return string(e.Append(nil)) }

// Append appends the epoch in the wire format, at most 40 bytes.
func (e Epoch) Append(text []byte) []byte {
	if e.IsZero() {
		return append(text, '0')
	}
	text = strconv.AppendInt(text, int64(e.Began), 10)
	if e.Resets == AnyResets {
		return append(text, ".*"...)
	}
	return strconv.AppendInt(append(text, '.'), e.Resets, 10)
}

// A Fault classifies an error of a [Shared].
type Fault uint8

// Faults.
const (
	// Unreachable: the store did not answer, or can answer no process now.
	Unreachable Fault = iota
	// Denied: the store denies this process access.
	Denied
	// Unfit: the error concerns this stack, such as a key with foreign data. The store works.
	Unfit
)

// A ForgotError is returned by a [Shared] that is not in the epoch of the stack, or whose clock is more than a second before
// [Stack].LastSeen. Nothing was charged.
type ForgotError struct{ Epoch Epoch } // the one in which it is; zero for none

// Error implements error.
func (e *ForgotError) Error() string {
	return fmt.Sprintf("pacer: the store has forgotten what it knew, or its clock has stepped back (epoch %v)", e.Epoch)
}
