// Package zendesk knows the limits of Zendesk's Support and Help Center APIs.
//
//	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: zendesk.Limits(zendesk.SuiteProfessional)})
//	client, err := transport.NewClient(p, transport.WithProfile(zendesk.Profile))
//
// # What Zendesk limits
//
// Calls per minute and account, by plan; calls per minute on some endpoints; and how often one user may update one
// ticket. Help Center calls have a counter of their own with the same number. One pacer can serve many accounts: all
// policies are per account, which is the host of the request. An endpoint's policy is per a scope of its own, which
// only calls of that endpoint carry and whose value is the account.
//
// Zendesk does not say where its minutes begin, so all policies hold in any minute. Bursts are small: accounts have been
// refused at a few calls a second although most of the minute was left.
//
// # How it refuses
//
// With 429 and Retry-After in seconds; the body may be plain text. Every reply tells the account's limit and what is left
// of it; replies of limited endpoints also tell the endpoint's, as "total=100; remaining=99; resets=41". A refusal is of the
// endpoint whose field says that nothing is left, while the account has some; otherwise of the account. One that names
// neither, for the update of a ticket while the account has calls left, is of that ticket.
//
// # Not modelled
//
// Jobs that are queued or running (30 at once; a TooManyJobs error holds back the refused call), limits of apps, attachments
// and side conversations, and the guard of 100,000 calls a minute.
package zendesk
