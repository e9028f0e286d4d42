// Package readings keeps an upstream's statements about its limits, passes them to the store, and lets this process follow at once.
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
//	            +-- Limit, Window > NoteLearn of what fits, or of the allowance, while the upstream says so and for two of its windows after (10 s to 10 min)
//	            +-- left ---------> NoteAnswer to the allowance of what fits, or of the upstream
//	every answer -----------------> NoteAnswer to each allowance that binds the call: it is not on its way any more
//	notes --Reporter--> the store --> Applied, for hooks --> Changed, for calls that wait
//
// [Rules] turn feedback into notes: they use no store, have no clock and never change. A [Memory] is what a process remembers between
// answers, such as what the upstream stated: how much, until when, in which field. A [Reporter] sends the notes to the store, those of good
// answers in batches. [Reports] pack notes for a store, so that no run of a script takes long.
//
// # Allowances
//
// "So much is left until then" is one thing, an allowance, whatever the policy: calls that start before then may cost at most so much
// together, and later calls are not limited by it. An allowance is a limit of its own beside the policy that it is about, under the
// policy's name and "/left", for the same scopes. The store keeps it by the rules of package engine, allowance.go. Calls are bound by it
// from the first reading on; that reading reports which are on their way then.
//
// A reading is about the policies that it names, or else the policy that has its number or its period, the one with the most scopes first,
// or else the upstream: for each name or number that readings carry there is one allowance, at most eight, and the rest is one. Nothing is
// dropped for not fitting. Once readings show that the values of a scope which calls carry are counted apart, such as tenants, there is one
// allowance for each value in place of that, under the same name, "/" and the scope's; calls that lack the scope keep the one for all. It
// shows when what is left rises where the value changes, and not where it stays. Each process looks for itself at its own replies, which
// come in order only to it; the finding is a name, which the store passes to all. Policies of two seconds and less are not bound by such
// coarse readings, which come too late; nor is the upstream, if it has no longer ones.
//
// A second that a good reply states of a rate counts as [Apart]: headers count in whole seconds, and a rate gives something back all the time.
// When its window is full for a moment, a pause of that second would be lost. Refusals are obeyed as they are.
//
// A profile without a time of reset leaves that to the policy, if the reading fits one, and to the store: see package engine. A reset
// beyond 31 days cannot be, and counts as absent.
//
// A stray refusal is one that is likely to be the upstream's imprecision: it widens a margin and pauses nobody. The store knows whether it
// makes a difference; if none does, nothing of it is a stray, and the refusals pause.
//
// # Limits that readings hide
//
// Some upstreams have two limits and state the one of which the smaller part is left, without its name and number. But the reset of one limit
// never comes nearer. If a later call of the same kind receives one in half the time, there are two limits, and the one that is reset sooner
// has an allowance of its own: "/left.sooner". So calls that are under way at a change from one to the other are too many only until it is
// known. Of a limit that only bare refusals show, while another is stated, a pace is learned; since the guessed end of a refusal is part of
// it, it is too slow at first. Nothing but a refusal shows such a limit: at first as many calls are refused as are on their way, up to the
// limit itself, and later one each time that the pace has grown beyond it. At exactly the limit, jitter brings half of the calls too early.
// No rule avoids the first of them: until then every reply states room, and calls on their way cannot be taken back. Of 64 callers that share a
// hidden limit of 20 in 10 s, 20 are refused at once, which is already more than three in each of six minutes.
//
// If only each tenth reply states the tighter one of two limits, those are refused that are on their way when the first one does, and then
// about one in each window: the call that tries whether a reading counted the answers after it, or, of a limit of fewer calls than ten, the
// only one to which the reset is stated.
//
// # Invariants
//
//   - Notes only tighten: nothing that an upstream reports admits more than the policies do.
//   - Counts are right although answers overtake each other and calls are in flight: an allowance knows which calls are not answered.
//   - A name that comes from a header is a part of a key only if it could name a policy.
//   - A Memory has one mutex, and a Reporter another: no function calls out while it holds one. A Memory has at most 69,632 keys.
//   - Waiting calls of this process do not need the store's news of its own reports, which may be late or lost.
//
// # Failures
//
// Feedback that names a policy which does not bind the call is an [*UnboundError], and nothing of that report becomes a note. An error of
// the store is returned as it is. Lost feedback is neither applied nor tried again: the next answer is newer, and a call without an answer
// counts as on its way for ten to twenty seconds.
package readings
