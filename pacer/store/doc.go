// Package store is for authors of stores, and the compatibility promise of Headway does not cover it: any release may change it.
// Only [ConfigError], [ErrUnreachable] and [ErrClosed] are covered, under their names in package pacer.
//
// It defines what a store does for a Pacer, and the values that they exchange. Users of Headway do not need it: they give a store to
// pacer.Config and use the Pacer, as users of database/sql do not need database/sql/driver.
//
// A [Store] keeps one account for each [Limit]: a policy for one scope value, named by its [Key]. It decides, by its own clock, when a call
// may go:
//
//	Pacer                                     Store
//	  |--- Reserve(Stack, Calls) ------------->|  finds one slot for each call in all limits of the stack, and charges it
//	  |<-- Grants: At, Charges, Receipt -------|
//	  |    (waits until At)                    |
//	  |--- Report(Stack, Notes) -------------->|  what the upstream stated, what the call really cost, that it is over
//	  |--- Cancel(Stack, Grants) ------------->|  the call does not go: takes back what was charged
//	  |<-- News: Paused, Resumed, Wake --------|  to waiting calls, if the store is a [Notifier]
//
// Stores differ in the optional interfaces that they implement:
//
//	Shared     other processes use it; it can be out of reach, or forget
//	Punctual   it knows whether its operations end when their contexts do
//	Notifier   it announces pauses as they are reported
//	Registry   it knows which processes use it, and how
//	Readier    it can check whether it would work, before a call depends on it
//	Exchanger  it grants slots by itself while the shared store is out of reach (a decorator)
//
// All instants are the store's: see [Instant]. A store that passes package storetest keeps every invariant on which a Pacer relies.
package store
