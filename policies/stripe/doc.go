// Package stripe describes the limits of Stripe's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "stripe", Policies: stripe.Limits(stripe.Live)})
//	client, err := transport.NewClient(p, transport.WithProfile(stripe.Profile))
//
// # What Stripe limits
//
// Stripe limits the calls per second of an account, to each endpoint, and to search and files. The Stripe-Account field of a platform that
// acts for others identifies the account; otherwise a hash of the key does. An endpoint is a method and a path without its ids. Stripe
// counts in token buckets whose depth it does not document, so bursts are small.
//
// Stripe also limits the calls that run at once, for an account and for each endpoint, and does not document how many. [Concurrent] and
// [EndpointConcurrent] are for numbers of yours.
//
// # How it refuses
//
// Stripe answers 429. Stripe-Rate-Limited-Reason names the limit: global-rate is the account's, endpoint-rate the endpoint's,
// resource-specific that of one object, and global-concurrency and endpoint-concurrency are those of calls at once. A 429 without that
// field whose code is lock_timeout is not about a limit: another call holds the object, and no other call is paused. Stripe documents no
// Retry-After; if a reply has one, it applies. A call is not repeated if the reply has Stripe-Should-Retry: false.
//
// stripe-go retries 409, 5xx and transport errors by itself, but not 429. With this transport, set MaxNetworkRetries to 0.
//
// # Not modelled
//
// Updates per hour of one PaymentIntent; invoices of a subscription; the allocation of reads per transaction; the limit of one event at a
// time for a customer and meter.
package stripe
