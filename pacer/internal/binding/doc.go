// Package binding answers one question: what binds this call, and for how much.
//
//	declared, set for the fleet, set for keys ──Policies──▶ Set 1 ──▶ Set 2 ...           what holds
//	                                                          │
//	options, context ──Reader.Call──▶ Ask ──Reader.Bind───────┴▶ limits, with their keys  what binds the call
//	                                   │                           │
//	                                   │                 Reader.Costs (Learner)            for how much
//	                                   │                           ▼
//	                                   └──Reader.Request──▶ dispatch.Request ──▶ the store
//	                                   │                           ▲
//	                                   └─Keep─▶ Requested ──Bind───┘                       again, by other policies
//
// The files, from the bottom: words (for people), parts (a policy and its lanes), set and keys (policies, unpacked once), policies (the
// present ones), learner, option and Ask (what a caller sets), bind, cost, nested, pooled, request, requested.
//
// # What holds
//
// The operators' policies for the fleet hold, or else those that the process declares, with the operators' settings for single keys. A
// setting ends by the store's clock. The latest version counts: an older answer is ignored. A store that knows no version has lost the
// settings. A text that this version of the program cannot parse does not hold; the Set's Source has the reason. If only other processes
// share a policy fairly, this process is one tenant of it: see [Policies.SetFair].
//
// # Which calls
//
//	nested    made under the context of a call that holds permits: it may share them, and is refused if it would wait for itself
//	pooled    any one of several credentials may make it: its request has the limits of all of them, as choices
//	observed  bound by policies that are not enforced: Ask.Which selects the kind of limits
//
// # For how much
//
// A call that is charged an estimate is settled at its real cost. A [Learner] estimates the 25th percentile of a key's recent costs,
// rounded up to the end of its bucket, at most by an eighth. It is low on purpose. A settlement returns a gap to a rate that is shorter
// than the next call: with the 95th percentile of lognormal costs (σ = 1), 43 % of a rate was used. The settlement corrects an estimate
// that was too low, and later calls wait for it, so the sum is always right. The estimate only has to be so large that not all callers go
// before the first calls are settled: with an estimate of next to nothing, a sixth of the calls or more were refused. A key's histogram
// takes 1 KB; at 1,024 costs all counts are halved; a new key replaces any other of 1,024.
//
// # Invariants
//
//   - A Set never changes, and is replaced only if something differs. It knows the names of earlier sets, whose calls are under way.
//   - One Set binds an Ask. Only [Requested.Bind] binds a waiting call by another, and then all of it.
//   - A call that need not wait is read and bound without an allocation: see [Reader.AtOnce].
//   - A part of a lane binds only calls of the lane, and costs what the whole policy does. Names are unique over policies and parts, and
//     all fair shares are by one scope: see [Check].
//   - Choices whose limits never admit a pooled call are left out; if none is left, the call is refused.
//   - A call shares only permits of limits with the same key, and only of calls in flight of the same Pacer.
//   - At most 65,536 keys with numbers of their own are remembered, and 1,000 names of former policies.
//   - After [Policies.Close] nothing changes, and no timer is left.
//
// # Failures
//
// A wrong option is a store.ConfigError, a store that fails a [dispatch.StoreError]. [Errors] make all other errors for users. A call whose
// scopes do not satisfy the new policies keeps its old ones.
package binding
