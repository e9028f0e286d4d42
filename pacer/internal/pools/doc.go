// Package pools holds what a process knows of several credentials: which of them share limits, which are out of use, and which one a call
// uses.
//
// # Purpose
//
// The store picks the account of a call: the one whose limits admit it first. The package picks the credential of the account and, if
// several accounts are equally good, the one at which the store begins. It knows neither policies nor stores.
//
//	credentials ──New──▶ accounts, each with credentials that share its limits
//
//	a credential:   in use ──Leave──▶ left, until a time ──the time has come──▶ in use
//
//	a call:         any account ──the store──▶ an account ──Pick──▶ a credential
//	                                                                    │
//	a Stick:        free ◀──its credential is left── sticks to it ◀─────┘
//
// # Invariants
//
//   - Credentials are picked at random, by their weights, from those of the account that are in use.
//   - A Stick keeps its credential while that is in use.
//   - A call whose account has been chosen always gets a credential: if all are left, the first to come back.
//   - An account is paused only if all of its credentials are left, and at most until the first of them comes back.
//   - Each refusal of a call that went after the previous refusal doubles the rest of its account, until a call is accepted.
//   - If no credential of the pool is in use, no call waits for one: the last account is not paused, and OnOut reports it.
//
// # Failures
//
// There are none. Only this process knows which credentials are left, and forgets it when it ends; the pause of an account is in the store.
package pools
