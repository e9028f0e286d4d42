// Package observe predicts what observed policies would have done to calls that have gone.
//
// # Purpose
//
// A policy that is observed holds no call. When a call goes, the store reserves the slot that the call would have had, and returns how long
// it would have waited. The slots that are still to come are the virtual queue: what calls would wait in, were the policies enforced. The
// limits of a stack that are enforced do not know of it: those that are observed are a stack of their own.
//
//	the call goes ──▶ pending ──the store is asked──▶ its slot has come ──────▶ settled, if its cost was
//	                     │                   │              ▲
//	                     │                   └─ to come ────┘
//	                     │                        │ the policies are enforced, the call is cancelled, or Close
//	                     └─ too many: lost        └──────▶ given back
//
// A store in memory is called in the goroutine of the call, since that takes no time. Any other is called by a goroutine that exists only
// while something is pending, so that no call waits for it.
//
// [Observer.Observe] binds a call to its observed policies; the caller makes events of the answers. Calls in flight are not requested: this
// process counts them, by [Observation.Enter] and [Observation.Release].
//
// # Invariants
//
//   - No call waits for an Observer whose store is not in memory.
//   - Pending requests, slots to come and settlements are bounded; what exceeds a bound is lost, and counted as such once.
//   - A slot to come is given back exactly once: by the call that does not go, when the policies are enforced, or by Close. One that comes
//     while its answer was on its way, from before the policies were enforced, is given back when the answer is there.
//   - Slots in the past stay charged.
//
// # Failures
//
// A store that fails loses the observations of its request. Slots that cannot be given back stay charged until they are past. A settlement
// that does not arrive leaves the call at what it was charged first.
package observe
