// Package engine holds the rate limiting algorithms: the accounts of single limits, and the search for a slot that every limit of
// a stack admits.
//
// It is pure: no clock, no lock, no I/O. Times are store time, integer microseconds since the Unix epoch. The Redis store runs the
// same program in Lua (package luascripts), and a differential test compares the two reply by reply: a change here is a change
// there. Numbers that both need are in package numbers.
//
// # Accounts
//
// An [Account] is what is known of one key under one algorithm:
//
//   - [GCRA], a token bucket as the generic cell rate algorithm has it: one call for each emission interval T, with the tolerance
//     τ = (B−1)·T for bursts of B. It reserves ahead, and remembers the gaps that reservations leave. With a log of starts it also
//     bounds the calls in any sliding window exactly.
//   - [Window], counters of fixed, calendar and sliding windows.
//   - [Concurrency], permits for the calls that run at once, each with a lease.
//
// When a policy changes, its key has [Versions]: an account for each shape in which it is asked for. A new one begins with what the last one
// knows, and each call counts in all of them. See versions.go.
//
// # From a request to a charge
//
// Reserve asks the accounts of a stack in turn until none of them moves the slot any more, and then charges each:
//
//	request --> Earliest --> Placement --> Commit --> Charge --> Cancel    before the call goes
//	            |      ^                                     --> Settle    when its cost is known
//	            +------+                                     --> Claim     when a store has forgotten it
//	            until all agree on the slot
//
// A [Placement] is a value, and all that goes from Earliest to Commit. A [Charge] is what Commit took; only charge.go knows what
// its integers mean. A refused request has no charge and leaves no trace.
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
//	  | |     asks again  +-+  |                               |
//	  | |                 ^    +----> forgotten: did not ask in time
//	  | |                 |                                    |
//	  | |                 | the slot comes, no permit free     | the slot comes,
//	  | |                 |                                    | a permit is free
//	  | +-------------> slot held, permit not taken -----------+
//	  |  another limit has it wait
//	  |
//	  +---> refused: the wait would exceed MaxWait
//
// A queued call holds no slot, a call that waits for a slot holds no permit, and a call that finds everything free goes at once. A
// call whose slot is held runs when the slot comes and a permit is free; otherwise it gives the slot back and is queued, in one step.
//
// A call that one of several stacks binds ([ReserveAny], ReserveAnyQueued) is decided by each of them, without a change, and then charged
// to one, or queued for one. It is decided anew whenever it asks again.
//
// # Invariants
//
//   - Earliest changes nothing that anybody can observe. It may move what the account keeps only to be fast, such as a sum of
//     buckets.
//   - Earliest is monotone in the instant that it is asked for, and content with its own answer. So the search ends, and at the
//     first slot that all limits have in common, whatever their order, but for the shortcuts of long searches: see package numbers.
//   - Intervals of a GCRA are disjoint, and gaps are disjoint, in order, before the tail, and no shorter than T.
//   - A reservation that is cancelled before its slot leaves a GCRA exactly as it was.
//   - Charges never exceed the limit, but for Settle and Claim: these say what has happened already.
//   - Cancel, Claim, Release and Renew may be repeated, as far as their comments say.
//   - An account means the same as a new one from Expires on.
//   - What the engine does not know (an account, an algorithm, a queue) makes it panic. It never admits a call that no account
//     counts.
//
// # Margins
//
// A limit that was refused although its account had room takes its period to be longer for a while, by a share of it: see margin.go. A rate
// spaces its calls by that much more, and its windows, if they are exact, are so much longer. A sliding window reaches back over more
// buckets, and a fixed one lets nothing go in its last part. The tolerance of a rate stays what it is, so that no margin lets more go.
//
// # Absurd numbers
//
// Specs are checked by package policies, requests by package pacer: the engine relies on intervals, limits and costs from 1, on
// bursts that come back within policies.MaxPeriod, and on times that leave room for that below 2^53, which is where a Lua number
// ends to be exact. Within this:
//
//   - A cost above the burst or the window, as a share or a learned limit can make it, does not conform anywhere: it has a window to
//     itself, or pays before it goes.
//   - A settled cost charges a rate at most policies.MaxPeriod of virtual time.
//   - A learned limit is at least 1, a learned emission interval at least T, and neither outlasts its until.
//   - A clock that steps back meets charges of a time to come: they count as reservations. Bounds of a calendar are continued
//     evenly before their first.
//   - A slot beyond the last bound of a calendar is refused: the window that it is in is not known yet.
//   - What is past is not given back, and no bucket ever holds less than nothing.
//
// # Adding an algorithm
//
// An algorithm is an [Account]: one Go file here, one Lua fragment there and one row in the conformance suite.
package engine
