// Package batch makes one request of many: reservations that wait while others of the same stack are on the wire, grants that are
// given back at the same time, bookings that are redeemed at the same time, and settings that are changed at the same time.
//
// # Reservations
//
// A call whose stack is not on the wire goes at once, so that batching never adds a wait, as long as few requests are on the wire:
//
//	Reserve --> waiting ----flush----> sent ----answer----> answered: its caller gets the grants
//	               |                     |                     |
//	               |  the caller leaves: its time is over, or the generation ends
//	               v                     v
//	           abandoned             abandoned: what it is granted is given back
//
// A flush is a goroutine that sends one request after the other, for as long as calls of stacks that are not on the wire wait. A
// generation is the time between two losses of the store: when it ends, nobody waits any longer, and what still hangs is in nobody's
// way.
//
// Invariants: at most one request per stack is on the wire, and at most maxFlushes in all; a request carries no more calls than the
// store decides in one run; what is granted reaches a caller or is given back, exactly once.
//
// # Cancels
//
// Grants that are given back while others are on the way go together in the next request, whatever their stacks: when thousands of
// calls give up at the same time, the store hears of it some times.
//
// # Redemptions
//
// At most one request that changes records of bookings is on the wire. Changes that come meanwhile go together in the next one, up to
// [store.MaxBookings]. Each caller gets its own answer, or its own error.
//
// # Changes
//
// At most one request that changes settings is on the wire. Changes that come meanwhile go together in the next one, which has the last of
// those for the same key.
//
// # Failures
//
// What an error means is the [Sender]'s business. A Sender that panics fails the calls of its request as unreachable.
package batch
