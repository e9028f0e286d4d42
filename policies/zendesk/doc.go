// Package zendesk describes the limits of Zendesk's Support and Help Center APIs.
//
//	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: zendesk.Limits(zendesk.SuiteProfessional)})
//	client, err := transport.NewClient(p, transport.WithProfile(zendesk.Profile))
//
// # What Zendesk limits
//
// Zendesk limits the calls per minute of an account, by plan, the calls per minute to some endpoints, and how often one user may update one
// ticket. Help Center calls have a counter of their own with the same number. One pacer can serve many accounts: all policies are per
// account, which is the host of the request. The policy of an endpoint is per a scope of its own, which only calls to that endpoint carry,
// and whose value is the account.
//
// Zendesk does not document where its minutes begin, so all policies hold in any minute. Bursts are small: accounts have been refused at a
// few calls a second although most of the minute was left.
//
// # How it refuses
//
// Zendesk answers 429 with Retry-After in seconds; the body may be plain text. Every reply has the account's limit and what is left of it.
// Replies of limited endpoints also have the endpoint's, as "total=100; remaining=99; resets=41". If the account has calls left and an
// endpoint's field has none, the endpoint's limit refused the call; otherwise the account's did. There is one exception: if the account has
// calls left, and so has each endpoint in the reply, a refusal to update a ticket is by that ticket's limit.
//
// # Not modelled
//
// Jobs that are queued or running (30 at once; a TooManyJobs error delays only the refused call), limits of apps, attachments and side
// conversations, and the guard of 100,000 calls a minute.
package zendesk
