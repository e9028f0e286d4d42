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
// A process that has never had an answer from the store does not know how many others there are, and so not its share. If its Config has
// how many, or refuses calls or lets them through, it becomes local when the first attempt fails. Otherwise its calls sleep in Await until
// the store answers, or denies them, or until they may wait no longer. A store that denies this process from the start ends the goroutine:
// the error is every call's, and the next call begins anew.
//
// # Local and back
//
// Slots that were granted before the store was lost stay good. The local queue of a process begins behind the last slot that the fleet is
// known to have been granted. A process that the store has not known for long has no share (standing.go has the reason): its calls wait as
// before the first contact, and those that wait in its queues poll. The share of each limit is the limit divided by the number of processes,
// which each learns from the heartbeats that all of them send; [policies.Policy.Share] defines it for each policy. Processes take turns on a
// grid of store time, so that their local queues together are as even as the shared one was: see charges.Accounts.Share.
//
// A process that finds its store first checks whether it answers, and then requests a barrier, an instant that the first of them sets for
// all, about a second later: a barrier in a reply that was lost would be over for later processes. It reports what it knew, in case the
// store has forgotten. If any of its own intervals of a rate is missing, the store has lost more, and the process reports what it knows of
// others, too. That only ever tightens. At the barrier it reports what it spent, and goes back. Calls that still wait give their slots up
// for slots of the fleet: package dispatch decides which may be earlier.
//
// Heartbeats also bring what the accounts hold that this process uses (bounded: see maxCurious), no matter which process was granted it, so
// a quota that another process has spent is spent for all. Grants to others since the last heartbeat are not known: windows that turn
// over faster than heartbeats come count as full until the next one begins, and a rate goes on a turn later.
//
// A store that answers but has forgotten everything reports that: data has an epoch, which clients know. Then the same happens at once.
// A store that has lost only its last writes, because a replica without them took over or it was restarted from a snapshot, begins another
// epoch with the first heartbeat of a process whose last one it lacks. Before that, its grants contradict what a process knows. Limits that
// were learned from the upstream and shares of adaptive rates are not remembered: the next answers bring them again.
//
// # What becomes of a unit of charge
//
// Package charges has a drawing, and keeps all that is known and owed. The state determines where a unit is charged, and when it is
// reported:
//
//	unknown   nothing is granted; notes of callers go to the Bill, and are paid with the first contact
//	shared    the store charges it, and the Ledger remembers it; what is given back is forgotten first
//	local     the Accounts charge it, which began behind the Ledger; the Bill has it when its slot has come
//	returning cells and permits up to the barrier are reserved in the store (ReserveShares), then the Bill is paid, then the store decides
//
// Local spending, and the excess of real costs over charges, must not be charged twice. Such a report has a number ([store.Once]), and is
// repeated with that number until it is answered. Refunds, resumptions and resets take effect now or not at all: later, others may have what
// was given back. It stays charged until it is past; only permits are given back later, by the numbers of their calls.
//
// # Invariants
//
//   - A process that does not know its share grants nothing.
//   - No limit is exceeded by a fall back: a process begins behind everything that it knows to be granted, with a share of each limit
//     that adds up to the limit over the fleet. The only process that has lost the store cannot know that, and spends its share beside the
//     others, until it has reserved its cells and permits.
//   - Local spending is reported to the store, once it answers, before this process is granted anything by it. A process that leaves before
//     that tries for as long as one request may take.
//   - Nothing is given back twice, nor to a store that has lost its data since.
//   - A deliberate reset begins a new epoch, and so does a setting: settings.go has what becomes of them. Before an answer in that epoch
//     counts, the process forgets what was reset and nothing else; everything, if the store does not know any more. An answer in whatever
//     epoch the store was (store.AnyResets) contradicts nothing, because one more reset may have come.
//   - A failure makes the state local at once, unless it is about one stack: see package link.
//
// # The parts
//
//	package link   the way to the store; package charges has what is known and owed
//	standing.go    which processes have a share, by what heartbeats return; schedule.go has how often they come
//	contact.go     who decides: the state, how it becomes local or shared, and what operators receive of that
//	settings.go    what operators have set and reset
//	heartbeat.go   heartbeats, and descriptions of this process
//	pay.go         reports to the store, and how what is owed is paid, once
//	first.go       the goroutine of this process until the first contact, run.go since, and resync.go its return
//	reserve.go     reservations, each by the shared store or locally; operations.go has everything else that callers and operators do
package failover
