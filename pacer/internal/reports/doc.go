// Package reports gives a store what an upstream reported of its limits, and what operators take back, and lets this process follow at once.
//
// # Flow
//
//	feedback ──rules──▶ strays ──the store──▶ others have paused already: the refusals are no strays
//	                    refusals, counts ─────▶ the store ──▶ Applied, for hooks ──▶ Changed, for calls that wait
//	Undo ─────────────▶ resume, reset ────────▶ the store ──────────────────────────▶ Changed
//
// A stray refusal is one that is likely to be the upstream's imprecision: it widens a margin and pauses nobody. The store knows whether it
// makes a difference; if none does, nothing of it is a stray, and the refusals pause.
//
// # Invariants
//
//   - Calls of this process that wait do not need the store's news of what this process reports itself, which may be late or lost.
//   - The store is asked only if there is something to report.
//
// # Failures
//
// An error of the store is returned as it is. What it did not receive is neither applied nor tried again: the next answer has newer
// numbers.
package reports
