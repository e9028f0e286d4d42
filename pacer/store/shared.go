package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrUnreachable matches the *pacer.StoreError of a store that did not answer within pacer.Config.StoreTimeout, or that is not
// asked because it did not answer before.
var ErrUnreachable = errors.New("pacer: the store is out of reach")

// ErrClosed is what a decorator of a store returns that was closed: no further operation is begun.
var ErrClosed = errors.New("pacer: closed: make a new Pacer, or close this one only when nobody uses it")

// A Shared is a [Store] that other processes use, too, and that can be out of reach, or forget. A Pacer watches over
// it: see pacer.Config.Outage. Every operation is given a context that ends when the Pacer does not wait any longer.
//
// A store whose operations are sure to end when their contexts do may say so by a method Punctual() bool. A Pacer then asks
// it in the goroutine of the call, where it otherwise needs another one to be able to leave in time.
//
// A store that has forgotten what it knew, or whose clock has stepped back, says so once it is asked to reserve by
// somebody who knows better: see [Stack].Era and [ForgotError].
type Shared interface {
	Store
	Bulk

	// ReserveAll is Reserve for several stacks of one upstream, in order, in one request. Era and Told are those of the
	// first stack. A limit that several of the stacks have in common has the same Spec in all of them. The last grants may be
	// [Grant].Deferred.
	ReserveAll(ctx context.Context, batches []Batch) error

	// Heartbeat says that a process is there, and returns what the store knows of the upstream.
	Heartbeat(ctx context.Context, upstream string, b Heartbeat) (Membership, error)

	// Fault says what an error that the store returned means.
	Fault(err error) Fault
}

// A Bulk is a [Store] that does much in one request.
type Bulk interface {
	// CancelAll is Cancel for several stacks of one upstream, in order, in one request: Calls is not used. A limit that several
	// of the stacks have in common has the same Spec in all of them.
	CancelAll(ctx context.Context, batches []Batch) error

	// Pauses is Status of which nothing is asked but Now and what is Paused: it takes little, however much is charged.
	Pauses(ctx context.Context, stack Stack) (StackStatus, error)
}

// A Batch is calls that carry the same stack, and room for as many grants: see [Store].Reserve.
type Batch struct {
	Stack  Stack
	Calls  []Call
	Grants []Grant

	_ struct{}
}

// A Heartbeat is what a process says of itself from time to time.
type Heartbeat struct {
	ID   string        // of the process, at random
	TTL  time.Duration // for how long it is there if nothing else is heard of it; 0: it leaves
	Now  Instant       // the latest store time that it was told; 0: none
	Keep time.Duration // for how long an account of the upstream can matter
	// Gather is for how long a process that was without the store waits for the others that were; 0 if it was not. The
	// first one that says so sets the time for all.
	Barrier time.Duration

	_ struct{}
}

// A Membership is the answer to a [Heartbeat].
type Membership struct {
	Now     Instant
	Epoch   int64   // which incarnation of the store's data this is: see [Incarnation]
	Alive   int     // how many processes are there
	Rank    int     // how many of them came before this one
	Barrier Instant // until when processes that were without the store wait for each other

	_ struct{}
}

// Incarnation returns when the data of an era came into being. Eras of one incarnation differ by deliberate resets.
func Incarnation(era int64) int64 { return era - era%1000 }

// A Fault is what an error of a [Shared] means.
type Fault uint8

// Faults.
const (
	// Unreachable: the store did not answer, or cannot answer anybody now.
	Unreachable Fault = iota
	// Denied: the store does not let this process in.
	Denied
	// Unfit: it is about this one stack, such as a key that holds something else. The store works.
	Unfit
)

// A ForgotError is what a [Shared] returns if it is not in the era of the stack, or its clock is more than a second
// before [Stack].Told. Nothing was charged.
type ForgotError struct{ Epoch int64 } // the era in which it is; 0 for none

// Error implements error.
func (e *ForgotError) Error() string {
	return fmt.Sprintf("pacer: the store has forgotten what it knew, or its clock has stepped back (era %d)", e.Epoch)
}
