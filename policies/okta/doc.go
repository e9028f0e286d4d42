// Package okta describes the limits of Okta's API.
//
//	stack := append(okta.Limits(600), okta.Concurrent(okta.WorkforceIdentity))
//	p, err := pacer.New(pacer.Config{Upstream: "okta", Policies: stack})
//	client, err := transport.NewClient(p, transport.WithProfile(okta.Profile))
//
// # What Okta limits
//
// Okta limits the calls per minute for each org and class of endpoints. The classes and their numbers differ by plan, and the org's own
// rate limit dashboard shows them, so give the number yourself. An endpoint of this package is a method and a path without ids. Every reply
// reports the limit of its class and what is left of it. A limit that is lower than yours applies while replies report it.
//
// Okta also limits the calls of an org that run at once: 35 or 75 by plan, and more for orgs that bought it. See [Concurrent].
//
// # How it refuses
//
// Okta answers 429 with X-Rate-Limit-Reset, an instant in seconds since the Unix epoch. It is compared with the Date of the reply, because
// clocks differ. When too many calls ran at once, limit and remaining are both 0, and the reset is an estimate of when that is over. A 429
// whose limit is 0, or that has something left of the minute, is read as such a refusal. Then the calls of the org pause, or only the
// refused call if the stack does not have [Concurrent], and the counts are not used.
//
// A 429 with the code of an SMS, an email or a telephone call is about one user, or about the messages of the org in a day: it delays
// only the refused call.
//
// # Not modelled
//
// The limits of one user: 40 requests in 10 seconds to an endpoint, and some a second to sign in. A refusal by such a limit that reports
// calls left of the minute is read as one by the number of calls at once. Traffic of Microsoft Office 365 and of agents, whose calls at
// once are counted separately.
package okta
