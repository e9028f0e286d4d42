// Package usage counts recent spending: by policy and second, and by the keys that spend most. Operators and metrics read it; no decision
// about a call needs it.
//
// # States
//
// A Meter counts nothing, and costs nothing, until it is on: from the start in a process with a shared store, from the first reading on in
// a process that has only its memory. A call's spending then takes this way:
//
//	a call is admitted -----> Tally of its second -----> report under way -----> with the store
//	                               ^      ^                    |
//	            settled before the |      | not received:      |
//	            second is reported |      +--- reported again--+
//	                               |
//	a call costs more or less -----+-----> correction, in the next report
//	                                 later
//
// # Invariants
//
//   - A second is reported once. A call that is admitted while its second is reported counts in the next one.
//   - Memory is bounded: Seconds of each policy, and 512 keys of each of two minutes.
//
// # Failures
//
// Counts that the store has not received stay in the Tally, and are in the next report, for up to Seconds: then charts have a gap, and
// nothing else notices.
//
// The callers of Tally and TopKeys supply a clock and a lock. A Meter and a Process are safe for concurrent use.
package usage
