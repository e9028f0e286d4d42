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
// The files, from the bottom: words (for people), parts (a policy and its lanes), set and keys (policies, unpacked once), policies (which
// are in force), learner, option and Ask (what a caller sets), bind, cost, nested, pooled, request, requested.
//
// # What holds
//
// The operators' policies for the fleet hold, or else those that the process declares, with the operators' settings for single keys. A
// setting ends by the store's clock. The latest version counts: an older answer is ignored. A store that knows of no version has lost what
// was set. A text that this version of the program does not understand does not hold, and the Set's Source contains why. Of what only other
// processes share fairly, this process is one tenant: see [Policies.SetFair].
//
// # Which calls
//
//	nested    made under the context of a call that holds permits: it may share them, and is refused if it would wait for itself
//	pooled    any one of several credentials may make it: its request has the limits of all of them, as choices
//	observed  bound by policies that are not enforced: Ask.Which says which kind of limits is meant
//
// # For how much
//
// A call that is charged an estimate is settled at its real cost. A [Learner] estimates the 25th percentile of the costs that a key had
// lately, rounded up to the end of its bucket, an eighth at most. It is low on purpose. A settlement returns a gap to a rate that is
// shorter than the next call: with the 95th percentile of lognormal costs (σ = 1), a rate was used at 43 %. An estimate that was too low is
// corrected by the settlement, and later calls wait for it, so that the sum is right in any case. It must only be large enough that callers
// do not all go before the first of them are settled: with an estimate of next to nothing, a sixth of the calls or more were refused. A
// key's histogram takes 1 KB; at 1,024 costs all counts are halved; at most 1,024 keys are known, and one more replaces any other.
//
// # Invariants
//
//   - A Set never changes, and is replaced only if something differs. It knows the names of those before, whose calls are on their way.
//   - An Ask is bound by one Set. Only [Requested.Bind] binds a call that waits by another one, and then all of it.
//   - A call that need not wait is read and bound without an allocation: see [Reader.AtOnce].
//   - A part of a lane binds only calls of the lane, and costs what the whole policy does. Names are unique over policies and parts, and
//     all fair shares are by one scope: see [Check].
//   - The limits of a choice that never admits a pooled call are left out; if all are, the call is refused.
//   - A call shares only permits of limits that have the same key, and only those of calls in flight of the same Pacer.
//   - At most 65,536 keys with numbers of their own are remembered, and 1,000 names of policies that do not hold any more.
//   - After [Policies.Close] nothing changes any more, and no timer is left.
//
// # Failures
//
// A wrong option is a store.ConfigError, a store that fails a [dispatch.StoreError]. [Errors] make all other errors of users. A call whose new
// policies do not go together with what it carries keeps those that it had.
package binding
