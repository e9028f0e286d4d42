// Package policies describes the limits of an upstream as plain data.
//
// A [Policy] is one limit of an upstream: a name, a scope (the whole upstream, or one key such as a tenant, a user or an endpoint) and an
// algorithm with its numbers. Several policies form a stack: a call starts when all of them admit it.
//
// # Which one do I need?
//
// Upstreams mean different things by "120 per minute", so there are different constructors:
//
//	PerSecond(2)                 one call every 500 ms; never two at once, even after an idle time
//	PerSecond(2).Burst(10)       2/s in the long run, and up to 10 at once after an idle time
//	PerMinute(120)               the same pace as PerSecond(2), and not "120 at once, then none for a minute"
//	Fixed(120, time.Minute)      120 in each minute of the clock, so up to 240 in a minute that spans two of them
//	Sliding(120, time.Minute)    120 at once, and never more than 120 in any 60 seconds
//	AtMost(120, time.Minute)     evenly spread, and never more than 120 in any 60 seconds
//	Daily(100_000, time.UTC)     100,000 in each calendar day of a time zone, DST included
//	InFlight(25)                 25 calls at the same time, however long each takes
//
// The default burst of a rate is 1. It is 2 for two or more calls per period if calls of different keys share the rate, or if they also
// wait for permits of InFlight: see [Stacked]. Every never starts two at once. A rate with burst B lets up to B + P/T calls into a window
// of length P (T is the time between calls): twice the limit if B equals it. If the upstream counts windows strictly, use AtMost, Sliding
// or Fixed.
//
// # When windows start
//
// Fixed windows are aligned to the Unix epoch, by the store's clock. If the upstream's windows start at other times, such as at your first
// call, use AtMost or Sliding, which hold in every window.
//
// # What upstreams report
//
// A [Feedback] is one report of an upstream about one of its limits: a request to slow down, what is left, or what it allows at present. A
// [Profile] describes one vendor's API: the scopes and costs of a request, and what a reply means. [Profile.LeavePercent] leaves a part of
// what replies report to other programs on the same account. Each vendor has a package below this one, with its limits by plan. Package
// ietf reads the standard header fields, package fields has the parsers, and package profiletest tests a profile against recorded replies.
//
// # Dividing a limit
//
// [Policy.Lane] limits certain calls, such as batch work, to a part of a policy, while other calls want the rest. [Policy.Fair] divides a
// policy among competing callers, such as tenants. The upstream sees one limit.
//
// # Limits that change without notice
//
// A rate that is [Policy.Adaptive] slows down after refusals, and recovers.
//
// # Plans and tiers
//
// A policy that is Per a scope has the same numbers for every key, unless [Policy.Override] or [Policy.OverrideBy] gives some keys others,
// such as tenants with a larger plan. [Policy.For] returns the policy of a key.
//
// # As text
//
// [Parse] reads what [Policy.String] writes, for files and flags: "peak: 25 per 1s, burst 10, per tenant". [ParseAll] reads several from
// one text. A policy is an encoding.TextMarshaler and an encoding.TextUnmarshaler, so JSON can hold it.
//
// The package is pure: it reads no clock, does no I/O except that Parse loads time zones, and imports no other package of Headway.
package policies
