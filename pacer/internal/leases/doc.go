// Package leases holds the permits of the calls of this process that are in flight, renews them, and gives them back.
//
//	Take -----> in flight --Release--> guarded --------> done: passed on to another call of the process, or given back
//	              |    ^                 (Skew)
//	  renewed, a third of its length      |
//	  before it could run out             |
//	              |                       v
//	              +--- not alive ---> runs out: the store takes the permits back by itself
//
// One timer, which runs while there are any leases, renews them: so the permits of a process that is gone come back by themselves. One
// goroutine, which runs while there is something to report, gives permits back.
//
// Invariants: a permit is given back once, however often Release is called; renewals and releases are reported one at a time, since a
// renewal that came after a release would take the permit again; nothing runs after Close but what is then released, which is
// reported at once.
//
// Failures: a function of WhileAlive that panics counts as true. A report that is lost costs nothing but time, because its leases run out.
package leases
