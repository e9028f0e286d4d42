// Package okta knows how Okta's API tells its limits.
//
//	stack := append(okta.Limits(600), okta.Concurrent(okta.WorkforceIdentity))
//	p, err := pacer.New(pacer.Config{Upstream: "okta", Policies: stack})
//	client, err := transport.NewClient(p, transport.WithProfile(okta.Profile))
//
// # What Okta limits
//
// Calls per minute for each org and class of endpoints. The classes and their numbers differ by plan and are shown on the org's own rate
// limit dashboard, so give the number yourself; an endpoint of this package is a method and a path without ids. Every reply reports the
// limit of its class and what is left of it, and a limit that is lower than yours is kept while replies report it.
//
// And calls that run at once, for each org: 35 or 75 by plan, and more for those who bought it. See [Concurrent].
//
// # How it refuses
//
// With 429 and X-Rate-Limit-Reset, an instant in seconds of the epoch, which is compared with the Date of the reply:
// clocks differ. When too many calls ran at once, limit and remaining are both 0, and the reset is an estimate of
// when that is over. A 429 that says so, or that something is left of the minute, is taken for that: the calls of the
// org pause, or the refused call alone if the stack does not have [Concurrent], and the counts are not used.
//
// # Not modelled
//
// Traffic of Microsoft Office 365 and of agents, whose calls at once are counted apart.
package okta
