// Package observe predicts what observed policies would have done to calls that have gone.
//
// # Purpose
//
// An observed policy holds no call. When a call goes, the store reserves the slot that the call would have had, and returns how long it
// would have waited. The future slots are the virtual queue, in which calls would wait if the policies were enforced. The enforced limits
// of a stack do not know of it: the observed ones are a stack of their own.
//
//	the call goes ──▶ pending ───────request────────▶ its slot has come ──────▶ settled, if its cost was
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
//   - Pending requests, future slots and settlements are bounded; excess ones are lost, and counted as such once.
//   - A future slot is given back exactly once: by the call that does not go, when the policies are enforced, or by Close. One whose answer
//     was under way when the policies were enforced is given back when the answer is there.
//   - Slots in the past stay charged.
//
// # Failures
//
// A store that fails loses the observations of its request. Slots that cannot be given back stay charged until they are past. Without its
// settlement, a call keeps its first charge.
package observe
