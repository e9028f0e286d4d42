// Package feedback turns what an upstream reports into notes for the store.
//
// # Purpose
//
// An upstream answers "slow down", or reports its limit and what is left of it. The package says which limits that is about, and what
// the store has to know of it. It asks no store and has no clock: the time is passed in, and [Rules] never change. What a process
// remembers between answers is a [Memory].
//
// # Flow
//
//	Feedback --targets--> the limits that it is about: those it names, or the widest scope that binds the call, within its bound
//	            |
//	            +-- refused, and nothing speaks against a stray refusal --> NoteStray of those it names, or of the tightest limit;
//	            |                                 the next two only if the store says that it was not the only one
//	            +-- Wait ---------> NoteAnswer to their allowances, or to that of the upstream: nothing is left, and how fast calls may go
//	            +-- Refused ------> the same, for as long as the store guesses, unless a rate adapts
//	            +-- Refused ------> NoteSlow of those that are adaptive
//	            +-- Limit, Window > NoteLearn of what fits, while the upstream says so and for two of its windows after (10 s to 10 min)
//	            +-- left ---------> NoteAnswer to the allowance of what fits, or of the upstream
//	every answer -----------------> NoteAnswer to each allowance that binds the call: it is not on its way any more
//
// # Allowances
//
// "So much is left until then" is one thing, an allowance, whatever the policy: calls that start before then may cost at most so much
// together, and nothing is said of what comes after. An allowance is a limit of its own beside the policy that it is about, under the
// policy's name and "/left", for the same scopes. The store keeps it by the rules of package engine, allowance.go. Calls are bound by it
// from the first reading on; that reading says which are on their way then.
//
// A reading is about the policies that it names, or else the policy that has its number or its period, the one with the most scopes first,
// or else the upstream: for each name or number that readings carry there is one allowance, at most eight, and the rest is one. Nothing is
// dropped for not fitting. Policies of two seconds and less are not bound by readings that say so little, which come too late; nor is the
// upstream, if it has no longer ones.
//
// A profile that does not say when there is more leaves that to the policy, if the reading fits one, and to the store: see package engine.
// A reset beyond 31 days cannot be, and counts as not said.
//
// # Invariants
//
//   - Notes only tighten: nothing that an upstream reports admits more than the policies do.
//   - Counts are right although answers overtake each other and calls are in flight: an allowance knows which calls are not answered.
//   - A name that comes from a header is a part of a key only if it could name a policy.
//   - A Memory has one mutex, and no function of this package calls out while it is held. It has at most 131,072 keys.
//
// # Failures
//
// Feedback that names a policy which does not bind the call is an [*UnboundError], and nothing of that report becomes a note. If the store
// does not receive a note, it is not repeated: the next answer says something newer, and a call of which the store hears no answer counts
// as on its way for ten to twenty seconds.
package feedback
