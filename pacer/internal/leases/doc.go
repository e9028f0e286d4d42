// Package leases holds the permits of the calls in flight of this process, renews them, and gives them back.
//
//	Take -----> in flight --Release--> guarded --------> done: passed on to another call of the process, or given back
//	              |    ^                 (Skew)
//	  renewed, a third of its length      |
//	  before it could run out             |
//	              |                       v
//	              +--- not alive ---> runs out: the store takes the permits back by itself
//
// One timer renews the leases while there are any, so the permits of a dead process return by themselves. One goroutine gives permits back
// while there are reports to send.
//
// Invariants: a permit is given back once, however often Release is called; renewals and releases are reported one at a time, since a
// renewal after a release would take the permit again; after Close nothing runs, and a release is reported at once.
//
// Failures: a function of WhileAlive that panics counts as true. A lost report costs only time, because its leases run out.
package leases
