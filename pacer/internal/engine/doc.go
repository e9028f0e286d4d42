// Package engine holds the rate limiting algorithms: the accounts of single limits, and the search for a slot that every limit of
// a stack admits.
//
// It is pure: no clock, no lock, no I/O. Times are store time, integer microseconds since the Unix epoch. The Redis store runs the same
// program in Lua (package luascripts), and a differential test compares the two reply by reply: change both together. Numbers that both
// need are in package numbers.
//
// # Accounts
//
// An [Account] is the state of one key under one algorithm:
//
//   - [GCRA], a token bucket by the generic cell rate algorithm: one call for each emission interval T, with the tolerance τ = (B−1)·T for
//     bursts of B. It reserves ahead, and remembers the gaps that reservations leave. With a log of starts it also bounds the calls in any
//     sliding window exactly.
//   - [Window], counters of fixed, calendar and sliding windows.
//   - [Concurrency], permits for the calls that run at once, each with a lease.
//   - [Allowance], what the upstream states as left of a limit until it resets.
//
// There is one account for each key, also when a policy changes: see [Kept].
//
// # From a request to a charge
//
// Reserve calls Earliest of the accounts of a stack in turn until none of them moves the slot, and then charges each:
//
//	request --> Earliest --> Placement --> Commit --> Charge --> Cancel    before the call starts
//	            |      ^                                     --> Settle    when its cost is known
//	            +------+                                     --> Claim     when a store has forgotten it
//	            until all agree on the slot
//
// A [Placement] is a value, and all that Earliest passes to Commit. A [Charge] is what Commit took; only charge.go knows what its integers
// mean. A refused request has no charge and leaves no trace.
//
// A limit with a queue (a lane, a fair share, concurrency) gives its slots and permits shortly before they are due. ReserveQueued
// moves such a call through these states:
//
//	            its turn, and a permit is free
//	requested -----------------------------------------> running ----> over: released, or its lease has run out
//	  | | |                                               ^    ^
//	  | | |  not its turn, or no permit free              |    |
//	  | | +-------------> queued -------------------------+    |
//	  | |                 | ^  |  its turn, and a permit       |
//	  | |        retries  +-+  |                               |
//	  | |                 ^    +----> forgotten: did not retry in time
//	  | |                 |                                    |
//	  | |                 | the slot comes, no permit free     | the slot comes,
//	  | |                 |                                    | a permit is free
//	  | +-------------> slot held, permit not taken -----------+
//	  |  another limit makes it wait
//	  |
//	  +---> refused: the wait would exceed MaxWait
//
// A queued call holds no slot, a call that waits for a slot holds no permit, and a call that finds everything free starts at once. A call
// that holds a slot runs when the slot comes and a permit is free; otherwise it gives the slot back and is queued, in one step.
//
// A call that one of several stacks binds ([ReserveAny]) is decided by each of them, without a change, and then charged
// to one, or queued for one. Each poll decides it anew.
//
// # Invariants
//
//   - Earliest changes nothing observable. It may update what the account caches, such as a sum of buckets.
//   - Earliest is monotone in the requested instant, and idempotent. So the search ends, at the first slot that all limits have in common,
//     whatever their order. Shortcuts of long searches are an exception: see package numbers.
//   - Intervals of a GCRA are disjoint, and gaps are disjoint, in order, before the tail, and no shorter than T.
//   - A reservation that is cancelled before its slot leaves a GCRA exactly as it was.
//   - The real cost of a settled call lies after its start, and no later than the charge did: it conforms, wherever it moves.
//   - Charges never exceed the limit, except by Settle and Claim, which record what has already happened.
//   - Cancel, Claim, Release and Renew may be repeated, within the bounds that their comments give.
//   - From Expires on, an account is equivalent to a new one.
//   - An unknown account, algorithm or queue makes the engine panic. It never admits a call that no account counts.
//
// # Margins
//
// If the upstream refuses a call although its account had room, the account assumes a longer period for a while: see margin.go. A rate
// spaces its calls further apart, and its windows, if they are exact, become longer. A sliding window reaches back over more buckets, and a
// fixed one admits no call in its last part. The tolerance of a rate does not change, so no margin admits more calls.
//
// # Extreme numbers
//
// Specs are checked by package policies, requests by package pacer: the engine relies on intervals, limits and costs from 1, on bursts that
// recover within specs.MaxPeriod, and on times that leave room for that below 2^53, above which a Lua number is not exact. Within these
// bounds:
//
//   - A share or a learned limit can make a cost exceed the burst or the window. Such a call does not conform anywhere: it gets a window to
//     itself, or is charged time before its slot.
//   - A settled cost charges a rate at most specs.MaxPeriod of virtual time.
//   - A learned limit is at least 1, a learned emission interval at least T, and neither outlasts its until.
//   - After a step back of the clock, charges can lie in the future: they count as reservations. Before its first bound, a calendar is
//     continued evenly.
//   - A slot beyond the last bound of a calendar is refused: the window that it is in is not known yet.
//   - Past time is not given back, and no bucket ever holds a negative number.
//
// # Adding an algorithm
//
// An algorithm is an [Account]: one Go file here, one Lua fragment there and one row in the conformance suite.
package engine
