// Package inforce decides which policies hold: those that operators have set for a fleet, or else those that the process declares, with what
// operators have set for single keys.
//
// # States
//
//	                      Declare, SetObserved
//	                        │
//	declared ───────────────┴──────────────▶ in force ──▶ a binding.Set, if it differs from the one before
//	set, in the store ──Read──▶ not ended ─────▲ │
//	                             ▲               │ the first of them ends, by the store's clock
//	                             └───────────────┘
//
// # Invariants
//
//   - Of what is set, the latest version counts: an answer that is older than one before is ignored.
//   - A store that knows of no version at all has lost what was set: then what is declared holds.
//   - A Set is replaced only if something differs, so that waiting calls are not bound anew for nothing.
//   - Of what only other processes share fairly, this process is one tenant: see [Policies.SetFair]. Its policies and their texts stay the same.
//   - After [Policies.Close] nothing changes any more, and no timer is left.
//
// # Failures
//
// A text that this version of the program does not understand does not hold here: what is declared does, and the source of the Set says
// why. A text for a key that is not understood is left out.
package inforce
