// Package failover stands between a Pacer and a store that a fleet shares. It always answers within a bound of time, whatever becomes
// of the shared store.
//
// # States
//
//	             first operation joins the fleet
//	unknown ---------------------------------------> shared: the store decides
//	    |                                              |   ^
//	    |  the store does not answer                   |   |  resync: every process waits at a barrier for the others,
//	    |                                       a failure  |  then reports what it spent, and goes on with the store
//	    |                                              v   |
//	    +----------------------------------------> local: this process decides, within its share (or refuses, or lets pass)
//
// One goroutine runs from the first operation until Close. While the state is shared, it sends heartbeats; while it is local, it probes
// the store every probeEvery.
//
// # The parts
//
//	failover.go    the state, its changes, the budget of time for each request, the circuit breaker
//	schedule.go    how often a process of a fleet of n reports, and the membership that heartbeats return
//	operations.go  what a store does: Reserve, Cancel, Report, Status, each by the shared store or locally
//	send.go        requests that package batch has made of many operations
//	ledger.go      what this process knows that the store granted, bounded: to begin behind it when the store is lost, and to remind a
//	               store that has forgotten
//	local.go       accounts of this process while it is local, and what it owes the store
//	resync.go      the goroutine, the barrier, and the reports when the store is back
//
// # Invariants
//
//   - No limit is exceeded by a fall back: a process begins behind everything that it knows to be granted, with a share of each limit
//     that adds up to the limit over the fleet.
//   - What was spent locally is reported to the store, once it answers, before this process is granted anything by it.
//   - Deliberate resets begin a new epoch: nothing of an earlier one is brought back.
//   - Memory is bounded: maxRecords keys, maxSpans intervals or maxBuckets buckets of each, maxOwed notes and grants.
//
// # Failures
//
// An error that is about one stack ([store.Unfit]) is that stack's. Any other failure, and an answer that comes too late, trips the
// breaker and makes the state local at once. An answer that contradicts the ledger (a replica without the last writes took over, a key
// was evicted) counts as [store.ForgotError]: the process falls back, and reminds the store.
package failover
