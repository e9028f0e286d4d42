// Package anthropic describes the limits of Anthropic's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "anthropic", Policies: anthropic.Limits(50, 30_000, 8_000)})
//	client, err := transport.NewClient(p, transport.WithProfile(anthropic.Profile))
//
// # What Anthropic limits
//
// Anthropic limits requests, input tokens and output tokens per minute, for each organization and class of models. The limits refill
// continuously (a token bucket). The numbers depend on the usage tier: take yours from the console. A hash of the key stands for the
// organization, and the model of the request for its class. Fast mode has limits of tokens of its own, so it counts as another model, such as
// "claude-opus-5 fast". One reservation covers all three limits.
//
// Several keys of one organization share its limits, and so do the models of some classes, such as all of Opus 4.x. If you use several of
// these, give them one value with transport.WithScope, for anthropic.ScopeKey and anthropic.ScopeModel.
//
// The input of a request is estimated at one token for each four bytes of its body. Output counts as it is produced, whatever max_tokens
// is. So one token is reserved for it at first. Once 20 answers are known, the reservation is the first quartile of the output of recent
// answers, but never more than max_tokens. The usage that the answer reports corrects both charges when the answer has been read to its end
// or is closed, streams included. If too little was reserved, later calls wait for the difference. A call that failed or was refused costs
// no tokens. Input that was read from the prompt cache does not count, as with all but a few older models.
//
// Calls without a model, such as those for batches and the list of models, and calls that count tokens have limits of their own. No policy
// here binds them. Nor does one bind requests whose body is longer than 256 KiB or can be read only once (no GetBody), because their model
// is unknown. If you send such requests, name the model with transport.WithScope(anthropic.ScopeModel, …).
//
// # How it refuses
//
// Anthropic answers 429 with Retry-After in seconds. The refusal is about the limits that the message names; otherwise about those whose
// remaining field is 0; otherwise about all. Without Retry-After, the wait is the latest reset of those that have nothing left. A 429 with the
// code enforced_spend_limit_reached, or whose message mentions a spend limit, is about money: repeating the call is pointless, and no other
// call is paused. A 429 with x-should-retry: false is not repeated either, as in Anthropic's SDKs. 529 means that the service is overloaded.
// It is not about a limit, and the call is repeated if the request is safe to repeat. With Retry-After, all calls of the key wait that long.
//
// # What the counts report
//
// anthropic-ratelimit-…-limit is per minute. …-remaining is how much may be spent at once; tokens are rounded to thousands. …-reset, an
// instant of RFC 3339, is when the whole limit is available again. anthropic-ratelimit-tokens-… repeats the tightest limit of tokens, or
// the sum of these limits, and is not used. For calls in fast mode, anthropic-fast-… replaces the fields of tokens. anthropic-priority-… is
// what is left of a commitment, beyond which calls go on at the standard tier, and is not used.
//
// # What is not known
//
// The wording of refusals, and how a refusal by a workspace's limit differs from one by the organization's. Limits of batches, of long
// contexts and of the priority tier, and the limits on sharp increases of traffic (which also answer 429), are not modelled.
package anthropic
