// Package feedback turns what an upstream reports into notes for the store.
//
// # Purpose
//
// An upstream answers "slow down", or reports its limit and what is left of it. The package says which limits that is about, and what
// the store has to know of it. It asks no store and has no clock: the time is passed in, and [Rules] never change. What a process
// remembers between answers is a [Usage].
//
// # Flow
//
//	Feedback --targets--> the limits that it is about: those it names, or the widest scope that binds the call, within its bound
//	            |
//	            +-- refused, and nothing speaks against a stray refusal --> NoteStray of those it names, or of the tightest limit;
//	            |                                 the next two only if the store says that it was not the only one
//	            +-- Wait ---------> NotePause of them, or of the whole upstream; never longer than the longest pause
//	            +-- Refused ------> NoteSlow of those that are adaptive
//	            +-- Limit, left --> fitting --> one limit --+-- lower than the policy's --> NoteLearn
//	                                                        +-- nothing left ------------> NotePause until there is more
//	                                                        +-- left, of a window -------> NoteRemaining
//	                                                        +-- left, of a rate ---------> NoteLearn: a pace that lets it last
//	Mark --Delivered--> Usage: the store knows it
//
// What is left of a limit is compared with what this fleet has charged, so that calls of other consumers of the same credential are seen.
// For that, a call that is tracked counts as in flight from its reservation until its answer:
//
//	           Enter              Admit                Answered
//	(unknown) ------> in flight ---------> in flight ----------> done: the next answers include it
//	                      |  reached: what was done then   |
//	                      +------------ Leave -------------+---> (unknown)
//
// # What is left
//
// Where the upstream reports when there is more, the lower limit holds until then. Where it does not, the present window is charged with
// what other consumers must have spent, and with a little for what they spend until the calls in flight are answered: at most 0.6 % of
// the limit. That is believed for a quarter of an hour, and at most for Config.MaxPause. Then one call goes to ask, and others a while
// after each other until an answer says what is left. The last answer counts: one with more left gives back what others were believed to
// have spent, unless one with less came within the last seconds. An answer that was overtaken changes nothing. A limit below the policy's
// is kept while the upstream reports it, and for two of its windows afterwards (10 s to 10 min).
//
// # What is left, and is not true
//
// A reading may be too high, some seconds old, out of order or from a cache. This holds whatever readings say:
//
//   - No more goes than the policy admits. A reading that is too high gives back what others were believed to have spent, and nothing of
//     what our own calls spent.
//   - Nobody waits longer than a quarter of an hour, or Config.MaxPause, for a call to ask, as long as our own calls have left room.
//
// If a reading is late, what is left is still used, since later readings make up for it. When it is used up, a late reading does not say
// so: a call is refused each time that one asks. A reading that is too high for good tells nothing of others: calls are refused until
// the refusals themselves say how long to wait. Profiles ignore the fields of replies that say that they come from a cache (Age).
//
// A "slow down" never shortens a pause. A rate that is adaptive slows down when calls are refused because of it, and recovers over time:
// see [policies.Adaptation]. Nothing runs in the background for that: the share of the rate is a function of the last refusal and the
// time.
//
// # Invariants
//
//   - Notes only tighten: nothing that an upstream reports admits more than the policies do.
//   - Counts are right although answers overtake each other and calls are in flight: the store counts tracked calls that the upstream
//     cannot have seen.
//   - Counts that name no policy are about at most one limit, and about none if they could be about several.
//   - Most answers report what is known already. Only what is material becomes a note: the first report on a key, steps of half a per
//     cent of the limit, every change near its end; and no more than one every 20 ms. While it makes no difference to the store, the steps
//     grow up to eightfold.
//   - A Usage has one mutex, and no function of this package calls out while it is held. It has at most 131,072 keys.
//
// # Failures
//
// Feedback that names a policy which does not bind the call is an [*UnboundError], and nothing of that report becomes a note. If the store
// does not receive a note, it is not repeated: the next material report says the same or something newer. A key that is forgotten because
// there are too many costs a note that was not needed.
package feedback
