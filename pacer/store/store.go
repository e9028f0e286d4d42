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
