// Package faulttest tests stores under what a fleet does to them, with tools that the library itself does not need: it is
// a module of its own, and has tests alone.
//
// # Linearizability
//
// A store is linearizable if every operation seems to happen at one instant between its call and its return. Then a fleet
// may reason about the store as if its processes came one after the other. The test lets several clients, each with a
// connection of its own, run random operations on one upstream of a real Redis server, notes when each operation was
// called and when it returned, and asks whether the operations can be put in one order that
//
//   - keeps to real time: what returned before another was called comes first,
//   - keeps to store time: it never goes back, and
//   - gets the very same answers, to the microsecond, from a memory store that is asked in this order.
//
// The last point makes the memory store the specification. So the test also compares the two stores under the server's own
// clock and with keys that expire, where the differential test of package redisstore sets the clock.
//
// Each history is driven by a seed, which a failure prints together with the history and the path of a picture of it:
//
//	HEADWAY_SEED=7 go test        # histories of this seed alone
//	HEADWAY_HISTORIES=5000 go test
//
// A seed repeats the policies and what the clients like to ask, but not how they interleave. So a failure may take some
// histories of its seed to come back.
package faulttest
