// Package waiters decides how far ahead a process reserves slots, and for how many of its waiting calls it asks at a time.
//
// # Purpose
//
// A slot that is reserved cannot be moved by others. If every waiting call of a fleet held one, an event such as a pause or the end of
// a process would touch thousands of reservations, and slots far ahead would leave pieces of a shared limit that are too short to be
// used. So a process holds slots of a stack only up to a reach ahead, as TCP sends only as much as fits its window. Its other
// callers wait in the process, in order, and hold nothing. The package says when to ask the store, and for how many: a [Window] is the
// state of one stack. A [Line] is that of a stack with a limit whose turn nobody can foresee: its calls stand in the store's own line, and
// it says how many at a time. They have no clock, no lock and no timer: their user has them.
//
// # States
//
//	           a call comes                    the store grants all of them slots that are due
//	(no one) ───────────────▶ asking ─────────────────────────────────────────────────▶ (no one)
//	                          ▲    │ a slot lies ahead, or a call was left over
//	   the furthest slot that │    ▼
//	   is held comes within   └── waiting
//	   the reach, or is used
//
// While a request is under way, calls that come wait for it: the next request carries all that fit. So the calls of a stack that come
// together share requests, whether they have to wait or not.
//
// # The reach
//
// H = max(40 ms, 3 × the way to the store and back), at most 2 s. The next slots are asked for when the furthest one that is held lies
// less than H ahead, so the answer is there before they are due even if it takes three times as long as usual. The first call of a request
// may get any slot that its own MaxWait allows; the others get one only within H. So a process always holds at least one
// slot, and at most those within H of the one before.
//
// # Invariants
//
//   - Calls of one window are asked for in the order in which they came.
//   - At most one request of a window is under way, with at most [MaxBatch] calls, and at most [MaxAhead] of them if they have to wait.
//   - Nothing that waits is charged. A call that leaves the queue leaves nothing behind.
//
// # When things fail
//
// If a request fails, its calls fail, and the next call asks anew. A slow store makes the reach longer, by what its answers took. A
// process that stalls holds at most the slots within its reach: the others are not delayed by those that wait behind them.
package waiters
