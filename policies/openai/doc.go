// Package openai describes the limits of OpenAI's API.
//
//	stack := append(openai.Limits(500, 200_000), openai.RequestsPerDay(10_000))
//	p, err := pacer.New(pacer.Config{Upstream: "openai", Policies: stack})
//	client, err := transport.NewClient(p, transport.WithProfile(openai.Profile))
//
// # What OpenAI limits
//
// OpenAI limits requests and tokens per minute (for some models also per day), for each organization, project and model. The limits refill
// continuously. The numbers depend on the account's tier and change: take yours from the limits page of your account. The credential, with
// the fields OpenAI-Organization and OpenAI-Project, stands for the project; the model is read from the request. One reservation covers
// both limits: a call starts when both admit it.
//
// The tokens of a request are an estimate: a quarter of its bytes, and the most that each of its n answers may have (max_tokens,
// max_completion_tokens or max_output_tokens); without one of these, nothing for the answers at first. Once 20 answers of the project and
// model are known, an answer is estimated at the first quartile of recent answers, which is usually far less than max_tokens. The usage
// that the answer reports corrects the charge when the answer has been read to its end or is closed; a stream reports it if its request
// enables usage. If too little was charged, later calls wait for the difference. A call that failed or was refused costs no tokens, but
// counts as a request. The estimate of images in the request is far too high.
//
// OpenAI documents that when a request arrives, it counts the larger of max_tokens and its own estimate of the prompt. If your calls are
// refused although Headway sees tokens left, your service meters what a request reserves rather than what its answer uses. Then use the
// profile [Reserved], which charges the whole reservation and gives nothing back.
//
// No policy here binds calls without a model, such as those for files and the list of models. Nor does one bind requests whose body is
// longer than 256 KiB or can be read only once (no GetBody), because their model is unknown. If you send such requests, name the model with
// transport.WithScope(openai.ScopeModel, …).
//
// # How it refuses
//
// OpenAI answers 429. Retry-After-Ms or Retry-After report how long to wait; otherwise the wait is the reset of what has nothing left. The
// refusal is about the limit per day if the message names that; otherwise about what has nothing left, requests or tokens; otherwise about
// what the error's type or message names; otherwise about both. Some codes are about money, such as insufficient_quota and
// credit_balance_exhausted, and a request may have more tokens than a minute: repeating the call is pointless, and no other call is paused.
// A 429 with x-should-retry: false is not repeated either, as in OpenAI's SDKs. Calls that are refused count against the limit, too.
//
// # What the counts report
//
// x-ratelimit-limit-… is read as a limit per minute, and x-ratelimit-remaining-… as what may be spent at once. If a model has a limit per
// day, the fields of requests have been seen to report that one, without a field that marks it. It is the larger number, so it changes no
// rate. x-ratelimit-reset-… is the time until the whole limit is available again, as a duration such as 6m0s. So it is used only in a
// refusal, for what has nothing left; −1 and 0 (Azure) mean nothing. If the project has a limit of tokens of its own
// (x-ratelimit-…-project-tokens), the one with less left counts.
//
// # What is not known
//
// How much of a minute's limit may be spent at once, how a day is counted, and which limits several models share. Limits of images and
// audio, and the queue of batches, are not modelled.
package openai
