// Package charges keeps what a process of a fleet knows of the accounts of the shared store, and what it owes them. It sends nothing, and
// has no goroutine: package failover does.
//
// # What becomes of a unit of charge
//
//	granted by the store            granted locally, charged to this process's share
//	   |                               |
//	   v                               v
//	Ledger: what an account         Bill: a localGrant, until its slot has come
//	of the store holds at least        |
//	   |                               +-- cancelled before that: back to the Accounts, no other process knows of it
//	   +-- cancelled, or settled       |
//	   |   for less: given back        v
//	   |   now, or charged          Bill: a spending, which is numbers: per bucket of a window how much,
//	   |   until it is past         of a rate from when to when, and how long each call takes of it
//	   |                               |
//	   |   settled for more, while     |
//	   |   the store is away --------> |
//	   |                               v
//	   |                            Bill: a Debt, sent at the barrier or after the next heartbeat, and again with the same
//	   v                            number until it is answered: added in the store, once
//	claimed as a maximum
//	from a store that has forgotten
//
// Two numbers of the same unit never meet: the store takes the maximum of claims, and the sum of debts.
//
// # Invariants
//
//   - A process without the store begins behind everything that it knows to be granted.
//   - Nothing is remembered as charged once it may have been given back: it is forgotten before the store receives that.
//   - Local slots are owed when they have come, and not before.
//   - Memory is bounded: maxRecords keys, maxSpans intervals or maxBuckets buckets of each, maxOwed permits that are given back.
//   - A Ledger, Accounts and a Bill have a mutex each, which are locked in the order Accounts, Ledger, Bill.
package charges
