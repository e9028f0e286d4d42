// Package dispatch holds the calls of a process on their way to their slots: which sleep, which are queued, and the requests to the store.
//
// # Purpose
//
// A slot that is reserved cannot be moved by others. If every waiting call of a fleet held one, an event such as a pause or the end of
// a process would touch thousands of reservations, and slots far ahead would leave pieces of a shared limit that are too short to be
// used. So a process holds slots of a stack only up to a reach ahead, as TCP sends only as much as fits its window. Its other
// calls wait in the process, in order, and hold nothing. Some limits are not granted ahead at all (permits, lanes, fair shares): calls
// for them are queued in the store, and the others of the process wait behind them.
//
// A [Dispatcher] has the calls of one Pacer, and [Call] is one of them. A Pacer selects the limits that bind a call, and makes the errors
// and events that its user sees. A caller hands over a call and sleeps. All state is under one lock. A change marks its queue; when the
// lock is released, the marked queues are looked at, and their requests are sent.
//
// # States of a call
//
//	Reserve ---> queued ---its turn comes---> asked
//	              ^ ^                         |   |
//	              | +-- its slot is too far --+   |
//	              |         away                  | slot, or a position in the store's queue
//	       what it had is given back              v
//	       in one request: requeue             reserved ---the slot comes---> used
//	              |                            |   ^  |
//	              |                            |   +--+ asks again, if it has no permit yet
//	              +----------------------------+
//
//	each state ---> given back: its owner gives up, its context ends, Close, or what it waits for is too far away
//
// A call goes back to its place in the queue when a pause covers its slot, when its future slot may be had earlier or must be later, when it
// comes too late for its slot, and when other policies bind it. A call that requested a later slot, or whose owner does not wait yet, is
// never queued before that. A call with NotBefore makes its own requests.
//
// A call that gives up its slot, or polls, is moving: one goroutine caught it, and its owner waits for that before it does anything
// else. An owner that gives up meanwhile returns at once, and the call's new slot is given back. A call in the store's queue polls when it
// is woken, or after a second. One that holds a slot without its permits requests them when the slot is near: if they are taken, it is
// queued in the store again.
//
// # Requests
//
// A shared store gets few requests. An ask is calls of one stack: those of a queue, as many as its window allows when the request is made,
// or one of a caller, now or when it polls. One whose stack is not on the wire, or whose call has its permits already, goes at once, unless
// four requests are under way. Later ones share the next request, whatever their stacks: up to 256 calls, and no more charges than a run of
// the store's program takes in two milliseconds. Callers whose store answers in time by itself send their own request; otherwise a goroutine
// does.
//
// # States of a queue
//
// A queue is of one stack; its [Window] decides when its calls go into a request, and how many.
//
//	           a call comes                    the store grants all of them slots that are due
//	(no one) ───────────────▶ asking ─────────────────────────────────────────────────▶ (no one)
//	                          ▲    │ a slot lies ahead, or a call was left over
//	   the furthest slot that │    ▼
//	   is held comes within   └── waiting
//	   the reach, or is used
//
// While a request is under way, calls that come wait for it: the next request carries all that fit. So the calls of a stack that come
// together share requests, whether they have to wait or not. Calls that the store leaves undecided go back to the head of their queue. An idle
// queue forgets its window, and is removed when there are many.
//
// # When the policies change
//
// Each call knows under which generation of the policies it was last bound. [Dispatcher.Replan] begins another one: the calls are bound
// anew, under no lock, and those whose limits are the same stay where they are. Stale calls with slots give them back and go to the queues
// of their new stacks, while no queue makes requests ("frozen"). Then all of them are queued anew, in order of arrival. A call to which a
// request under way grants a slot to come by its old limits gives that back when it is answered.
// Changes that come meanwhile are one change, whose turn comes then.
//
// # The reach
//
// H = max(40 ms, 3 × the round trip to the store), at most 2 s. The next slots are requested when the furthest one that is held lies less
// than H ahead, so the answer is there before they are due even if it takes three times as long as usual. If many slots fit into H, they
// are requested later, so that a request is for several: two round trips before the last one is due, but no later than a fourth of H, and no
// earlier than a half. The first call of a request may get any slot that its own MaxWait allows; the others get one only within H. So a
// process always holds at least one slot, and at most those within H of the one before. Of windows that keep parts, none is far ahead: see
// parts.go.
//
// A store cannot grant a slot behind the known windows of a calendar. The call then has no slot, and polls when half of the time to its
// slot is over: so the number of requests is a logarithm of the wait. The end of a pause wakes it earlier.
//
// # The parts
//
// Each stands on those below it.
//
//	reserve.go     a call that wants a slot, now, later, or in its turn; many that go now or not at all; slots that come from elsewhere
//	dispatcher.go  all calls of a Pacer: their beginning and their end
//	call.go        what the owner of a call can do
//	wait.go        the steps of a call that waits: in its queue, then until it goes, or gives its slot back
//	news.go        news from the store, and permits that come back
//	replan.go      binding the calls that wait anew, when the policies change
//	requeue.go     giving back what calls have, also what this process granted locally, and putting them back in their queues; a call that
//	               asks for itself, again and again
//	send.go        the lock, what is sent when it is released, and the answers
//	admit.go       when the calls of a queue ask, and what the answer means for each
//	place.go       entering a queue and leaving it, and the end of a call
//	passing.go     permits, slots and positions that go from one call of the process to the next
//	grant.go       what a grant means, and giving it back
//	choice.go      calls that one of several choices of limits binds, or other policies than before
//	owed.go        what calls cost more than they were charged, and for how long they have permits
//	parts.go       calls that wait for room in a window with parts
//	waits.go       for what a call waits, how long, and whether that is too long
//	changes.go     what this process knows of pauses, resumptions and slower rates
//	queue.go       the queue of a stack
//	state.go       all of the state
//	config.go      what a Pacer says, how a call is bound, errors and events
//	window.go      how far ahead to reserve, for how many calls to ask, and how many are in the store's queue
//	clock.go       when, by the clock of this machine, the store decided
//
// # Invariants
//
//   - Calls of one queue are requested in order of arrival. One that is bound anew while a request carries it may come later, by H.
//   - No call fails because it is bound anew: one that cannot be keeps the limits that it has.
//   - At most one request of a stack is under way, but for calls that have their permits, with at most [MaxBatch] calls, and at most [MaxAhead]
//     of them if they have to wait.
//   - A slot or position that a call gives up goes to the calls behind it; only the last one goes back to the store.
//   - Nothing that is queued is charged. A call that leaves a queue leaves nothing behind.
//   - A call goes once, or is given back once. Only the goroutine that marked a call as moving changes its grant.
//   - A call that waits behind a pause that this process received goes after it.
//   - No call waits for a pause that is over. Each knows how many changes this process had received when its slot was requested. If news of
//     others overtakes the answer, the call moves: see outdated.
//   - One lock guards all calls and queues. No request to the store, and no function of a user, runs under it.
//
// # When things fail
//
// If a request fails, its calls fail, and the next call makes a new one; if the store panics, the caller in whose goroutine that was
// panics, and the calls of the request fail. A slow store makes the reach longer, by the time of its answers. A process that stalls holds
// at most the slots within its reach: the others are not delayed by those that wait behind them. After news that may have been missed, all
// queued calls poll, and the process reads which limits are paused; it learns of resumptions and resets by the epoch of the store's data,
// with its next heartbeat. A slot that cannot be given back is lost; a permit comes back when its lease runs out. Close wakes all calls,
// and waits until they have given their slots back.
package dispatch
