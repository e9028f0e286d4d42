// Package anthropic knows the limits of Anthropic's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "anthropic", Policies: anthropic.Limits(50, 30_000, 8_000)})
//	client, err := transport.NewClient(p, transport.WithProfile(anthropic.Profile))
//
// # What Anthropic limits
//
// Requests, input tokens and output tokens per minute, for each organization and class of models, refilled all the time
// (a token bucket). The numbers depend on the usage tier: take yours from the console. The key stands for the
// organization, by a hash, and the model of the request for its class. All limits are one reservation.
//
// Several keys of one organization share its limits, and so do the models of some classes (all of Opus 4.x, say). If you use
// such ones together, give them one value with transport.WithScope, for anthropic.ScopeKey and anthropic.ScopeModel.
//
// A request's input is reserved at an estimate: a quarter of its bytes. Its output is counted while it is produced, whatever
// max_tokens says: one token is reserved for it, and once 20 answers are known, as much as the shortest quarter of those lately had at
// most, but never more than max_tokens. What the answer says it used corrects both when it has been read to its end or is closed,
// streams included; calls that come later wait for what was too little. What failed or was refused costs no tokens. Input that was
// read from the prompt cache does not count, as with all but a few older models.
//
// Calls without a model, such as those for batches and the list of models, and the counting of tokens have limits of their own
// and are bound by no policy here. So are requests whose body is longer than 256 KiB or cannot be had twice (no GetBody):
// their model is unknown. Tell it with transport.WithScope(anthropic.ScopeModel, …) if you send such ones.
//
// # How it refuses
//
// With 429 and Retry-After in seconds. Concerned is the limit that the message names, otherwise those whose remaining field
// is 0, otherwise all. Where Retry-After is missing, the reset of what has nothing left counts. A 429 whose message speaks of a
// spend limit is about money: repeating it is pointless, and nobody slows down. 529 means that the service is
// overloaded: no limit of ours, repeated if the request is safe to repeat.
//
// # What counts tell
//
// anthropic-ratelimit-…-limit is per minute, -remaining what may go at once, rounded to thousands for tokens; -reset, an
// instant of RFC 3339, is when all of it is back. anthropic-ratelimit-tokens-… repeats whichever limit of tokens is the
// tightest, or their sum, and is not used.
//
// # What is not known
//
// The wording of refusals, and how a workspace's limit differs from the organization's in them. Limits of batches, of
// long contexts and of the priority tier, and those on sharp increases of traffic (which also come as 429), are not modelled.
package anthropic
