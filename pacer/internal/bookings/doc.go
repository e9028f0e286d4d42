// Package bookings books slots for jobs that a queue keeps, and redeems them in the process that runs the job.
//
// # Purpose
//
// A booking is a charged slot, written as a token: text with the charge of each limit, and with the call's options, so that any process can
// give the slot back or bind the call again. The process that booked keeps nothing. From its redemption, move or cancellation on, the store
// keeps a record of it, so that each token is used once.
//
//	Book ──▶ token ─────────────── Open, by another process ──────────────▶ a Redemption
//
//	the record:
//
//	                   ┌────────────── in time, no pause ─────────────┐
//	                   │                                              ▼
//	   (none) ─────────┴── too late, paused, other limits ──▶ ".." ──▶ "."+who: spent
//	     the token's slot                          needs a slot │ ▲     ▲
//	                                                    booked  ▼ │     │
//	                                                    a token: its slot
//
// A Redemption takes turns: it changes the record that it knows, by a compare and set. If another process was faster, it gets the new
// record and takes the next turn. A later attempt of a job has a record of its own, which begins without a slot.
//
// # Invariants
//
//   - A booking goes once: the record of its redemption replaces only the known one.
//   - A slot is given back only with the change of the record that ends it, in one request, and only to limits that account as they did for
//     the charge. A slot that was charged in vain, because another process was faster, is given back at once.
//   - A call goes within its slot and its slack, by the store's clock.
//   - While a Redemption waits for a slot that is not near, the booking is not spent: if the process dies, nothing is lost.
//   - A booking holds no permit: a Redemption takes the permits when the call goes, and returns them if it does not.
//   - A token is read only if it is byte for byte as it was written, and everything in it is checked.
//   - A Redemption takes at most [maxTurns] turns.
//
// # Failures
//
// Only the store knows whether a token was used, so nothing is booked or redeemed without it: a slot that this process granted itself is
// given back. A request for a change is not interrupted, since it may have been done: if its answer is lost, the token may be spent, and a
// later attempt of the job finds out. A store that has lost its data since the booking has another epoch, and the token is refused. If a
// call does not go after its record was spent, the record becomes one that needs a slot.
package bookings
