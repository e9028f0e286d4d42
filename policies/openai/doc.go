// Package openai knows the limits of OpenAI's API.
//
//	stack := append(openai.Limits(500, 200_000), openai.RequestsPerDay(10_000))
//	p, err := pacer.New(pacer.Config{Upstream: "openai", Policies: stack})
//	client, err := transport.NewClient(p, transport.WithProfile(openai.Profile))
//
// # What OpenAI limits
//
// Requests and tokens per minute (some models also per day), for each organization, project and model, refilled all the
// time. The numbers depend on the account's tier and change: take yours from the limits page of your account. The
// credential, with the fields OpenAI-Organization and OpenAI-Project, stands for the project; the model is read from the
// request. Both limits are one reservation: a call goes when both admit it.
//
// A request's tokens are an estimate: a quarter of its bytes, and the most that each of its n answers may have (max_tokens,
// max_completion_tokens or max_output_tokens); without one of these, nothing at first. Once 20 answers of the project and model are known,
// an answer is estimated at what the shortest quarter of those lately had at most: far less than max_tokens, as a rule. What the answer
// says it used corrects the charge when it has been read to its end or is closed, streams included if they were asked for usage.
// Later calls wait for what was too little. A call that failed or was refused costs no tokens, but counts as a request. The estimate
// of images in the request is far too high.
//
// OpenAI documents that it counts the larger of max_tokens and what it makes of the prompt when a request comes. If your calls are
// refused although Headway sees tokens left, your service meters what a request reserves rather than what its answer uses: take the
// profile [Reserved], which charges all of it and gives nothing back.
//
// Calls without a model, such as those for files and the list of models, are bound by no policy here. So are requests whose
// body is longer than 256 KiB or cannot be had twice (no GetBody): their model is unknown. Tell it with
// transport.WithScope(openai.ScopeModel, …) if you send such ones.
//
// # How it refuses
//
// With 429. retry-after-ms or Retry-After say how long, and otherwise the reset of what has nothing left. Requests or tokens
// are meant: what has nothing left, otherwise what the error's type or message names, otherwise both. A 429 whose
// code is insufficient_quota is about money: repeating it is pointless, and nobody slows down. One with x-should-retry: false is
// not repeated either, as OpenAI's SDKs read it. Calls that are refused count against the limit, too.
//
// # What counts tell
//
// x-ratelimit-limit-… is taken as per minute, x-ratelimit-remaining-… as what may go at once. Where a model has a limit per
// day, the fields of requests have been seen to tell that one, which no field says; it is the larger number, so it changes
// no rate. x-ratelimit-reset-… is the time until all of it is back, as a duration such as 6m0s, so it is heeded only in a
// refusal by what has nothing left; −1 and 0 (Azure) mean nothing.
//
// # What is not known
//
// How much of a minute may go at once, how a day is counted, and limits that several models share. Limits of images and
// audio, and the queue of batches, are not modelled.
package openai
