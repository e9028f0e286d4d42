// Package openai knows the limits of OpenAI's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "openai", Policies: openai.Limits(500, 200_000)})
//	client, err := transport.NewClient(p, transport.WithProfile(openai.Profile))
//
// # What OpenAI limits
//
// Requests and tokens per minute (some models also per day), for each organization, project and model, refilled all the
// time. The numbers depend on the account's tier and change: take yours from the limits page of your account. The
// credential, with the fields OpenAI-Organization and OpenAI-Project, stands for the project; the model is read from the
// request. Both limits are one reservation: a call goes when both admit it.
//
// A request's tokens are an estimate, as OpenAI itself makes it: a quarter of the prompt's bytes, and the most that the
// answer may have. What the answer says it used corrects the charge when it has been read to its end, streams included if
// they were asked for usage. A burst is a whole minute's worth, as the refill is told: which is also the highest
// estimate that one call may have.
//
// # How it refuses
//
// With 429. retry-after-ms or Retry-After say how long, and otherwise the reset of what has nothing left; the message tells
// whether requests or tokens were meant, unless the counts do. A 429 whose code is insufficient_quota is about money:
// repeating it is pointless, and nobody slows down. Calls that are refused count against the limit, too.
//
// # What counts tell
//
// x-ratelimit-limit-… is per minute; x-ratelimit-remaining-… is what may go at once. x-ratelimit-reset-… is the time until
// all of it is back, as a duration such as 6m0s; −1 and 0 (Azure) mean nothing.
package openai
