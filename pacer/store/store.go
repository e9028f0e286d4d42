package store

import "context"

// A Store keeps the accounts of policies and decides when a call may go. Processes that share a store share its limits and its clock.
// Package memstore serves one process, package redisstore a fleet; a store of your own must pass package storetest.
//
// Most users never call a Store: they give one to pacer.Config and use the Pacer.
type Store interface {
	// Reserve finds and charges a slot for each of the calls, in order, and writes it to grants, which is as long as calls. All calls carry
	// the same stack, whose limits hold from now on. A call whose wait would exceed its MaxWait is not granted and changes nothing. Costs
	// are from 1 to the smallest Spec.Limit of the stack; NotBefore and MaxWait are not negative.
	//
	// If Reserve returns an error, the grants are void, and no call may go. A Pacer wraps the error into a *pacer.StoreError.
	Reserve(ctx context.Context, stack Stack, calls []Call, grants []Grant) error

	// Cancel gives back what grants of this stack were charged, except for the elapsed part, which no call could use.
	Cancel(ctx context.Context, stack Stack, grants []Grant) error

	// Report applies notes about limits of the stack, in order, and notifies every listener (see [Notifier]) of pauses and resumptions. It
	// returns the time, and how many notes of the kinds Slow, Learn, Answer, Stray and Claim made a difference.
	Report(ctx context.Context, stack Stack, notes []Note) (now Instant, changed int, err error)

	// Status reads a stack without changing anything.
	Status(ctx context.Context, stack Stack) (StackStatus, error)
}

// A Readier is a [Store] that can check whether it would work, before a call depends on it.
type Readier interface {
	// Ready returns nil if all operations for an upstream would work now, as far as it can find out without charging or leaving anything;
	// otherwise what is wrong and what to do about it. An error that matches [ErrUnreachable] means that no server answers, or can answer
	// now. Ready ends when its context does.
	Ready(ctx context.Context, upstream string) error
}

// A StackStatus is the state of a stack at one instant.
type StackStatus struct {
	Now    Instant
	Limits []LimitStatus

	_ struct{}
}

// A LimitStatus is the state of one limit of a stack at one instant.
type LimitStatus struct {
	Remaining int64   // calls of cost 1 that may go now
	Next      Instant // the first slot for a call of cost 1
	Backlog   int64   // cost charged to slots after now
	Paused    Instant // of an allowance: nothing is left until then; 0 if something is
	Pace      int64   // as it is now, learned and adapted: the emission interval of a rate in µs, the limit of a window or of leases
	Queued    int64   // queued calls
	Margin    int64   // by how much longer than it is the period is taken to be, in millionths: see NoteStray
	// Full is when the whole limit is available again, if nothing else is charged, given back or reported: charges have expired, and the
	// pace is the limit's own. For leases it is when the last one runs out. It ignores the margin.
	Full Instant

	_ struct{}
}
