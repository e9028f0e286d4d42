// Package faulttest tests stores under what a fleet does to them, with tools that the library itself does not need: it is
// a module of its own, and has only tests.
//
// # Linearizability
//
// A store is linearizable if every operation seems to happen at one instant between its call and its return. Then a fleet may reason about
// the store as if its processes came one after the other. The test lets several clients, each with a connection of its own, run random
// operations on one upstream of a real Redis server, records when each operation was called and when it returned, and checks whether the
// operations can be put in one order that
//
//   - keeps to real time: what returned before another was called comes first,
//   - keeps to store time: it never goes back, and
//   - gets the very same answers, to the microsecond, from a memory store that is called in this order.
//
// The last point makes the memory store the specification. So the test also compares the two stores under the server's own
// clock and with keys that expire, where the differential test of package redisstore sets the clock.
//
// Each history is driven by a seed, which a failure prints together with the history and the path of a picture of it:
//
//	HEADWAY_SEED=7 go test        # histories of this seed alone
//	HEADWAY_HISTORIES=5000 go test
//	HEADWAY_LONG=1 go test        # more histories, and more runs of the chaos below, with more faults
//
// A seed repeats the policies and the kinds of requests, but not how they interleave. So a failure may take some histories of its seed to
// come back.
//
// # Chaos
//
// Several Pacers, each with a store, a client and a proxy of its own as processes of a fleet have them, make calls as fast as they may,
// cancel some, settle some for less, report pauses and lift them, and reset a policy, while connections and servers fail: answers come
// late, in pieces, cut off or not at all, connections are reset, the server stops and comes back empty, hangs, or forgets everything. A
// referee that knows the policies by their definitions, and shares no code with the engine, looks at the slots of the calls that went. The
// test checks that
//
//   - far from faults, no window of any policy has a slot too many, no call goes before its slot, and none in a pause;
//   - near a fault, no window has more than the limit and the shares of the processes that paced locally (see referee);
//   - no call has another error than that it may not go in time, and every operation ends;
//   - after the faults, calls go again;
//   - every call that went was charged, and none more than twice;
//   - a budget that was spent before the first fault, while no process had lost the store, stays spent, however many pace locally;
//   - no call of a process that starts in a fault goes before its store has answered;
//   - what is given back while answers are lost comes back at most once, and what was reset meanwhile not at all;
//   - in the end no goroutine is left, and every key in Redis expires.
//
// This holds on a machine of any speed: a call that goes later than its slack counts as if it had gone at the latest instant
// that was promised, and a store that a slow machine kept from answering in time counts as a fault. With -tags measure, after the
// faults the tightest policy is used to at least 95 %, so that no slot is lost for good.
//
// # Crosswise
//
// In virtual time, over a store in memory that has all faults of a real one, every fault meets every kind of stack and every way in which
// calls end (TestCrosswise), and random operations of the whole API meet random faults (TestOperations). A short run plays a sample,
// HEADWAY_LONG=1 all of it, and -run the cell or the seed that it names.
//
// # Seeds
//
// A seed decides the policies and the faults:
//
//	HEADWAY_SEED=7 go test -run Faults      # the run of this seed alone
//
// The soak does the same with new seeds, higher limits and more callers, on a single server, on a Redis Cluster whose slots move and whose
// masters die, and behind a Sentinel that fails over, and checks histories in between. Its last line has how many operations met faults,
// and how many violations there were:
//
//	HEADWAY_SOAK=10m go test -run Soak -timeout 20m
//	HEADWAY_SOAK=1m HEADWAY_SITE=cluster HEADWAY_SEED=7 go test -run Soak    # what failed, again
package faulttest
