// Package stripe knows the limits of Stripe's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "stripe", Policies: stripe.Limits(stripe.Live)})
//	client, err := transport.NewClient(p, transport.WithProfile(stripe.Profile))
//
// # What Stripe limits
//
// Calls per second and account, calls per second on each endpoint, and on search and files. An account is identified by the Stripe-Account
// field of a platform that acts for others, and otherwise by a hash of the key. An endpoint is a method and a path without its ids. Stripe
// counts in token buckets whose depth it does not document, so bursts are small.
//
// And calls that run at once, of an account and on each endpoint. How many it does not tell: [Concurrent] and
// [EndpointConcurrent] are for numbers of yours.
//
// # How it refuses
//
// With 429. Stripe-Rate-Limited-Reason says which limit: global-rate is the account's, endpoint-rate the endpoint's,
// resource-specific that of one object, global-concurrency and endpoint-concurrency those of calls at once. A 429
// without that field whose code is lock_timeout is no limit at all but an object that another call holds: nobody else
// slows down for it. No Retry-After is documented; one that is there is heeded. Stripe-Should-Retry: false is
// believed.
//
// stripe-go retries 409, 5xx and transport errors by itself, but no 429; with this transport set MaxNetworkRetries to 0.
//
// # Not modelled
//
// Updates per hour of one PaymentIntent; invoices of a subscription; the allocation of reads per transaction; that
// one event at a time may be sent for a customer and meter.
package stripe
