// Package pacer paces a program's outbound calls to third-party APIs, for one process or for a fleet.
//
//	p, err := pacer.New(pacer.Config{
//		Upstream: "salesforce",
//		Policies: []policies.Policy{policies.Daily(100_000, time.UTC), policies.PerSecond(25).Burst(10)},
//	})
//	err = p.Wait(ctx) // nil: go now
//
// # Words
//
// A call is one outbound request, with a cost. An upstream is the API being called. A policy is one limit of
// an upstream, with a scope. The stack is the policies that bind one call. A slot is the instant, in store
// time, from which a call may go. A reservation is a slot granted and charged; it can be cancelled. Slack is
// how much later than its slot a call may go and still conform. A pause lets nothing in its scope go before a
// given time.
//
// # How it works
//
// Before each call the store is asked, in one operation, for the first slot at which every policy of the
// stack admits the call:
//
//	slot ← the latest of now and every pause in the stack
//	repeat: slot ← for each policy, the first instant ≥ slot at which it admits the call
//	until no policy moves it
//	if it is further away than MaxWait: refuse, and write nothing
//	charge every policy
//
// The caller then sleeps until its slot, and goes. Nobody polls and nobody competes: a slot once granted
// belongs to its call.
//
// # Queues
//
// A slot that is held far ahead is in everybody's way: a pause, a cancellation or the end of a process has to move it, and
// what it leaves of a shared limit may be too short for anybody else. So a process holds slots of a stack only up to
// H = max(40 ms, 3 × the way to the store and back) ahead, and always at least one. Its other callers wait in the process,
// in the order in which they came, and hold nothing. When the furthest slot comes within H, the first one asks for the next
// slots, for itself and all behind it that fit, in one request. So ten thousand callers of a process have a few dozen slots
// between them, and a tenant with one call waits behind slots, not behind the queues of others.
//
// Between processes, the order is by window and not by call: the oldest caller of one process may wait for up to H longer
// than a younger one of another. A process with one caller is served as often as one with sixty, while both wait.
//
// Calls made by [Pacer.Reserve] hold their slots from the start, however far away, and so do those that ask for a later one
// ([NotBefore]): they stand in no queue.
//
// A reservation in the future leaves a gap before it. Accounts remember their gaps, so that a later
// reservation may fill one and never delays an earlier one (conservative backfilling, as in batch
// schedulers). That is why a tenant with a long line does not hold up the others.
//
// # What is guaranteed
//
//   - Conformance: the times at which calls go conform to every policy, for any interleaving of calls,
//     cancellations, pauses and jitter, from any number of processes.
//   - All or nothing: a call that is refused or fails has charged no policy.
//   - No head-of-line blocking: a key that is full delays only the calls that carry it.
//   - Work-conserving: when the store is asked, a call gets the first slot at which all of its limits have room, be it
//     before later reservations or where one was cancelled. See Queues for how far ahead it is asked.
//   - Never early: no call goes before its slot. Jitter is added, within the slack.
//   - Deadline-aware: a call that cannot go before its context's deadline, or within MaxWait, is refused at once. For a call
//     behind others in the queue of its process that is an estimate, by the pace at which they go: the error says so
//     (LimitError.About). If it turns out too optimistic, the call is refused when its time is over.
//   - Nobody is pushed back: no call moves another's slot. Without cancellations and pauses, calls of one process that carry
//     the same keys and cost about the same go in the order in which they came.
//   - Bounded state: what means nothing any more expires.
//
// Package storetest holds every store to this.
//
// # In line
//
// What is given cannot be taken back. So some limits are not given far ahead, as rates and windows are: a place in flight
// (policies.InFlight), because nobody knows when a call will be over; and what calls of different importance share
// (policies.Policy.Lane, policies.Policy.Fair), because those who come later must not have to make do with the rest. A call that
// has to wait for one of them stands in line in the store, in order, and is charged nothing. It asks again when the store
// told it to, which is when its turn may come, or when the store calls it, which a [store.Notifier] hears at once; a call that is
// lost costs a second. Who does not ask again is taken for dead and skipped; if it was only late, it stands where it stood.
// Of a process, as many calls stand there as are served within twice H, and at least 16; the others wait behind them in the process.
//
// When its turn comes, a call gets its places and its slots in one step. If it would have to wait much longer than 40 ms
// for another of its limits, it gets its slots at once, as always, and its places when the slot comes; if they are taken by
// then, it gives the slots back in the same step and stands in line, where it was. So nobody who waits for a place holds a
// slot, and nobody who waits for a slot holds a place.
//
// A place is a lease. The process renews those of its calls, and if it ends, they run out. A call is over when
// [Reservation.Release] says so. Calls that have outlived their lease, because their process was suspended, count again
// when it renews them, so that there may be more than the limit for a while: they run, whatever is written about them.
//
// A place whose call is over goes to the next call of its process that waits for the same places and nothing else, without asking
// the store: for that, the call before is still running. After a slice of 200 times the way to the store and back, at most 30 s, it
// goes back to the store, which gives it to the first in line, wherever that is. So places are in use however far away the store is.
//
// A lane's calls get their slots 40 ms ahead (H, where the way to the store is long), at the lane's part of the rate; what that
// leaves of the whole rate is lent 20 ms before it would be lost (H less 20 ms). Nothing is lent of windows. Fair shares are start-time fair queueing over those in line.
// The order within a line is exact; that between those who ask at nearly the same time is so up to the slots of 40 ms.
//
// # What is not
//
// The guarantee is about when Wait returns. What happens afterwards is not in its power: a goroutine that is
// not scheduled, a connection that is slow to open, a network that brings two calls closer together. The
// strict constructors of package policies take a skew for that. Nor does Headway see who else spends the same
// quota, but for what the upstream says: see below.
//
// # Time
//
// The store's clock decides, in microseconds. Clients are told how long to wait, and sleep that off on their
// monotonic clock, counted from when the answer arrived; their own time of day does not matter. All rounding is
// against the caller. Store time does not go back by more than a second, even if the store's clock does, as long as
// one process remembers: it goes on, a 64th slower, until the clock has caught up. If the clock goes forward, what
// was charged seems to be longer ago: a burst more may go, and a window's count more.
//
// A call that wakes long after its slot and slack (Config.MaxLate), because the process or the machine was suspended,
// does not go: others may have counted on that time. It reserves again.
//
// # Why a call waits
//
// Each refusal says which policy binds, for which scope, how long, and what to do: see [LimitError]. [Pacer.Status] says how
// things stand for a call, and package fleet for an upstream: every policy, what went in the last minute, who waits for
// what, the processes, and the keys that spend most. [Hooks] receive events as they happen, in goroutines of their
// own, so that no call waits for them; [LogHooks] logs it.
//
// For that, each process reports to a shared store that is a [store.Registry], every three seconds, what its policies are, what went,
// and who waits: in a fleet of more than two hundred processes less often, up to once a minute. Nothing of it is needed to decide; what
// cannot be reported is reported later. Package fleet serves those who have the store alone, too, such as the command headway: they
// see the fleet, and can pause, resume and reset, without being one of its processes.
//
// # When the store is out of reach
//
// A store that other processes use, too, can hang, fail, forget or lie about the time. A [Pacer] watches over it: see
// [store.Shared]. Every operation has a budget of its own, Config.StoreTimeout, whatever the contexts of calls and the
// timeouts of the client are. After a failure the store is left alone for a moment, and then tried by one request at a
// time. Meanwhile the process paces from memory (or as Config.Outage says):
//
//   - At its share: the limit divided by the number of processes that the fleet had, which each learns from the heartbeats
//     that all of them leave. [policies.Policy.Share] says what that is for each policy.
//   - Behind the fleet: slots that were granted stay good, and its own line begins behind the last slot that the fleet is
//     known to have been granted. Processes take turns on a grid of store time, so that their lines together are as even
//     as the one line was.
//   - Without a debt: what is given back, settled or paused meanwhile is told to the store later.
//
// Coming back, a process tells the store what it knew, in case that the store has forgotten: what was taken of rates
// and counted in windows, and pauses. That only ever tightens. Processes that lost the store wait for each other,
// about half a second, and come back at the same time, each with what it has spent. Calls that still sleep exchange
// their slots for slots of the fleet that are not earlier.
//
// A store that answers but has forgotten everything says so: data has an era, which clients know. Then the same
// happens at once, in all processes whose calls sleep: a store that is a [store.Notifier] tells them. One that has lost only the last of it, because a replica without the last writes took over, does
// not know: but it grants to somebody what that process has already, or counts less than that process alone was
// granted, and so is found out. [Pacer.Reset] forgets on purpose; what was reset does not come back. Limits that were
// learned from the upstream and shares of adaptive rates are not remembered: the next answers bring them again.
//
// What cannot be known: a process that alone has lost the store spends its share while the others still have all of
// the limit between them, so up to 1/n too much goes out; and one that starts when the store is out of reach has to
// be told how many there are, by Config.Processes.
//
// # What the upstream says
//
// [Pacer.Report], and [Reservation.Report] for the answer to one call, heed what an upstream says; package transport
// does so for every response. All of it goes to the store, for everyone who shares it, and nothing of it lets more go
// than the policies allow.
//
// "Slow down" is a pause of the policies that are meant, or of the widest scope that binds the call, capped by
// Config.MaxPause. It never shortens one. Every later reservation stands behind it. Calls that sleep already, in this
// process or another, and whose slot falls inside, give it back and reserve again behind the pause, in their order: a
// store that is a [store.Notifier] tells every process. A message that is lost costs a refusal, never a wrong wait, and after
// a broken connection the store is asked. What comes after a pause goes at the policies' pace. [Pacer.Resume] lifts one
// by hand.
//
// What is left of a limit shows what other consumers of the same credential spend. It is compared with what this fleet
// has charged, and only ever tightens: an answer that was overtaken changes nothing, and calls made with [Tracked]
// that the upstream cannot have counted yet are not taken for somebody else's. Where the upstream says when there is
// more, the lower limit holds until then; where it does not, the present window is charged with what others must have
// spent, and with a little for what they spend until the calls on their way are answered: at most 0.6 % of the limit. A
// process tells the store only what is material: half a per cent of the limit, and every change near its end.
//
// A limit below the policy's is kept while the upstream says it, and for two of its windows afterwards (10 s to 10 min).
//
// A rate that is adaptive slows down when calls are refused because of it, and recovers over time: see
// [policies.Adaptation]. Nothing runs for that in the background: the share of the rate is a function of the last
// refusal and the time.
//
// What a call costs may differ by policy ([CostOf]), and may be known only afterwards: [Reservation.Settle] gives the
// difference back or charges it.
package pacer
