// Package anthropic knows the limits of Anthropic's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "anthropic", Policies: anthropic.Limits(50, 30_000, 8_000)})
//	client, err := transport.NewClient(p, transport.WithProfile(anthropic.Profile))
//
// # What Anthropic limits
//
// Requests, input tokens and output tokens per minute, for each organization and class of models, refilled all the time
// (a token bucket). The numbers depend on the usage tier: take yours from the console. The key stands for the
// organization, by a hash; the model is read from the request. All limits are one reservation.
//
// A request is reserved at an estimate: a quarter of its bytes as input, and max_tokens as output. What the answer says it
// used corrects that when it has been read to its end, streams included.
//
// # How it refuses
//
// With 429 and Retry-After in seconds, for the limits whose remaining field is 0, and otherwise for all. 529 means that
// the service is overloaded: no limit of ours, repeated if the request is safe to repeat. A spent budget also comes as
// 429, without Retry-After; nothing tells it apart but the words of its message, so it is treated as a limit whose length is
// not told.
//
// # What counts tell
//
// anthropic-ratelimit-…-limit is per minute, -remaining what may go at once, rounded to thousands for tokens; -reset, an
// instant of RFC 3339, is when all of it is back.
package anthropic
