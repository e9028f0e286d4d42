// Package failover stands between a Pacer and a store that a fleet shares. It always answers within a bound of time, whatever becomes
// of the shared store.
//
// # States
//
//	             first contact: joins the fleet
//	unknown ---------------------------------------> shared: the store decides
//	 |  ^ |                                            |   ^
//	 |  | |  the store does not answer,                |   |  resync: every process waits at a barrier for the others,
//	 +--+ |  and this process knows its share,  a failure  |  then reports what it spent, and goes on with the store
//	 no   |  or need not know it                       v   |
//	answer+--------------------------------------> local: this process decides, within its share (or refuses, or lets pass)
//
// One goroutine runs from the first operation until Close. While the state is unknown, it tries to reach the store; while it is shared,
// it sends heartbeats; while it is local, it probes the store, first every probeEvery, and more rarely the longer that takes.
//
// # The first contact
//
// A process that has never had an answer from the store does not know how many others there are, and so not its share. If its Config has
// how many, or refuses calls or lets them through, it becomes local when the first attempt fails. Otherwise its state stays unknown: calls
// sleep in Await until the store answers, or denies them, or until they may wait no longer. One goroutine makes the attempts, one at a
// time. A store that denies this process from the start ends that goroutine: the error is every call's, and the next call begins anew.
// Reports are kept for the store meanwhile, as in an outage.
//
// # Local and back
//
// Slots that were granted before the store was lost stay good. The local queue of a process begins behind the last slot that the fleet is
// known to have been granted. A process that the store has not known for long has no share (standing.go has the reason): its calls wait as
// before the first contact, and those that wait in its queues poll. Processes take turns on a grid of store time, so that their local
// queues together are as even as the shared one was; under a strict rate also after they were idle: see localStore.share. The share of each
// limit is the limit divided by the number of processes that the fleet had, which each learns from the heartbeats that all of them send;
// [policies.Policy.Share] defines it for each policy. Spending, pauses and releases are reported to the store later.
//
// A process that finds its store first checks whether it answers, and then requests a barrier, an instant that the first of them sets for
// all: a barrier in a reply that was lost would be over for those who come next.
//
// Heartbeats also bring what the accounts hold that this process uses (bounded: see ledger.go), no matter which process was granted it: how
// far ahead a rate is taken, the buckets of a window, the permits in use and until when. A process that becomes local begins behind these,
// so a quota that another process has spent is spent for all. It cannot know what others were granted since its last heartbeat. Windows
// that turn over faster than heartbeats come count as full until the next one begins, and a rate goes on a turn later.
//
// # Once
//
// Local spending, and the excess of real costs over charges, must not be charged twice. Such a report has a number ([store.Once]), and is
// repeated with that number until it is answered: the store remembers the numbers for store.OnceTTL. Refunds take effect now or not at all,
// as resumptions and resets do: later, others may have them. It stays charged until it is past; only permits are given back later, by the
// numbers of their calls.
//
// After a failure the store gets no request for a moment, and then one request at a time. A process that comes back reports what it knew,
// in case the store has forgotten: what it was granted by rates, what was counted in windows, and pauses. If any of its own intervals of a
// rate is missing, the store has lost more, and the process reports what it knows of others, too. That only ever tightens. Processes that
// lost the store wait for each other, about a second, and come back at the same time, with those that wait for their first contact. No
// local slot behind that time is used before its process has reported what it spent. Calls that still wait give their slots up for slots of
// the fleet: package dispatch decides which may be earlier.
//
// A store that answers but has forgotten everything reports that: data has an epoch, which clients know. Then the same happens at once,
// in all processes that have waiting calls: a store that is a [store.Notifier] notifies them. A store that has lost only its last
// writes, because a replica without them took over or it was restarted from a snapshot, begins another epoch with the first heartbeat of a
// process whose last one it lacks. Before that, it grants again what a process has already, or counts less than that process was granted
// by itself, and so is found out. Limits that were learned from the upstream and shares of adaptive rates are
// not remembered: the next answers bring them again.
//
// A process cannot know whether it alone has lost the store: then it spends its share while the others still have all of the limit, so up
// to 1/n too much goes out. When it has found the store it reserves its cells of each rate, so of rates that ends then. A process whose
// very first request finds a store that has just come back does not know that others are local, and has all of the limit until they know
// it, too.
//
// # What becomes of a unit of charge
//
//	granted by the store            granted locally
//	   |   the ledger: what the        |   a localGrant, charged to this process's share
//	   |   store holds at least        |
//	   |                               +-- cancelled before its slot: back to the local account, nobody else knows of it
//	   +-- cancelled, settled for      |
//	   |   less: given back now,       v   its slot has come: fold
//	   |   or charged until past     spent: added up, per bucket of a window and per interval of a rate
//	   |                               |
//	   |   settled for more, while     |   the barrier, or the next heartbeat: pay
//	   |   the store is away --------> |
//	   v                               v
//	claimed as a maximum             a report with a number, owed until it is answered: added in the store, once
//	from a store that has forgotten
//
// # The parts
//
//	contact.go     what happens until the store has answered for the first time
//	failover.go    the state, the store's time, joining and leaving
//	fallback.go    the state becomes local, and what operators receive of that
//	request.go     the budget of time for each request, and how a store that has just failed is left alone
//	epochs.go      what was reset or set on purpose
//	schedule.go    how often a process of a fleet of n reports
//	standing.go    which processes have a share, by what heartbeats return
//	operations.go  what a store does: Reserve, Cancel, Report, Status, each by the shared store or locally
//	send.go        requests of many calls, and of what package batch has collected
//	shared.go      what only the shared store can do: descriptions, settings, bookings
//	record.go      what this process knows of one account of the store, bounded
//	ledger.go      the records of all keys, and what enters them: to remind a store that has forgotten
//	handover.go    what goes from a record to a local account when the store is lost, and back
//	local.go       accounts of this process while it is local, and what it owes the store
//	heartbeat.go   the goroutine, and the heartbeats that it sends
//	resync.go      the barrier, and the reports when the store is back
//	pay.go         how what is owed to the store is paid, once
//
// # Invariants
//
//   - A process that does not know its share grants nothing.
//   - No limit is exceeded by a fall back: a process begins behind everything that it knows to be granted, with a share of each limit
//     that adds up to the limit over the fleet.
//   - Local spending is reported to the store, once it answers, before this process is granted anything by it. A process that leaves before
//     that tries for as long as one request may take.
//   - Nothing is given back twice, nor to a store that has lost its data since.
//   - A deliberate reset begins a new epoch, and so does a setting. A process that meets it reads what was reset (store.Settings.Resets),
//     and reserves again at the same time. Before the answer to that counts, the process forgets what was reset and nothing else;
//     everything, if the store does not know any more. It has calls that wait for it reserve again. No process restores the old state. If
//     epochs begin within a second of each other, the process reads the resets with each reservation, and is not refused first.
//   - Memory is bounded: maxRecords keys, maxSpans intervals or maxBuckets buckets of each, maxOwed notes.
//
// # Failures
//
// An error that is about one stack ([store.Unfit]) is that stack's. Any other failure, and an answer that comes too late, trips the
// breaker and makes the state local at once. An answer that contradicts the ledger (a replica without the last writes took over, a key
// was evicted) counts as [store.ForgotError]: the process falls back, and reminds the store. An answer in whatever epoch the store was
// (store.AnyResets) contradicts nothing, because one more reset may have come.
package failover
