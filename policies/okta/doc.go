// Package okta knows how Okta's API tells its limits.
//
//	p, err := pacer.New(pacer.Config{Upstream: "okta", Policies: okta.Limits(600)})
//	client, err := transport.NewClient(p, transport.WithProfile(okta.Profile))
//
// # What Okta limits
//
// Calls per minute for each org and class of endpoints. The classes and their numbers differ by plan and are shown on the
// org's own rate limit dashboard, so give the number yourself; an endpoint of this package is a method and a path without
// ids. Every reply tells the limit of its class and what is left of it, and a limit that is lower than yours is kept while
// it is told.
//
// # How it refuses
//
// With 429 and X-Rate-Limit-Reset, an instant in seconds of the epoch, which is compared with the Date of the reply: clocks
// differ. When too many calls ran at once, the same fields hold the number of calls at once, and the reset is an estimate. A
// 429 that says something is left of the minute is taken for that: the call alone waits, and the counts are not used.
//
// # Not modelled
//
// Calls at once.
package okta
