// Package policies says what an upstream allows, as plain data.
//
// A [Policy] is one limit of an upstream. It has a name, a scope (the whole upstream, or one key such as a tenant,
// a user or an endpoint) and an algorithm with its numbers. Several policies make a stack: a call goes when all of
// them admit it.
//
// # Which one do I need?
//
// Upstreams that say "120 per minute" mean different things, and so do the constructors:
//
//	PerSecond(2)                 one call every 500 ms; never two at once, however idle it was
//	PerSecond(2).Burst(10)       2/s in the long run, and up to 10 at once after idling
//	PerMinute(120)               the same pace as PerSecond(2): it is NOT "120 at once, then none for a minute"
//	Fixed(120, time.Minute)      120 in each minute of the clock: up to 240 around the turn of the minute
//	Sliding(120, time.Minute)    120 at once if they come at once, and never more than 120 in any 60 seconds
//	AtMost(120, time.Minute)     never more than 120 in any 60 seconds, evenly spread
//	Daily(100_000, time.UTC)     100,000 in each calendar day, in any time zone, DST included
//	InFlight(25)                 25 calls at the same time, however many those are in a second
//
// A rate with burst B lets up to B + P/T calls into a window of length P (T is the time between calls): twice the
// limit, if B is the limit. Where the upstream counts windows strictly, use AtMost, Sliding or Fixed.
//
// # Look-alikes
//
// Fixed windows are those of the store's clock, aligned to the Unix epoch. If the upstream's windows start elsewhere
// (at your first call, say), no aligned window is safe: use AtMost or Sliding, which hold in every window.
//
// # What upstreams say
//
// A [Feedback] is one thing that an upstream said about one of its limits: slow down, this is what is left, this is
// what I allow at present. A [Profile] is what is known of one vendor's API: to which scopes a request belongs, what it
// costs, and what a reply says. Each vendor is a folder below this one, with its limits by plan; package ietf reads what
// standards say, fields has the parsers, and profiletest tests a profile against recorded replies.
//
// # Who goes first
//
// [Policy.Lane] keeps a part of a policy free from some calls, batch work for example. [Policy.Fair] shares one out among
// those who compete for it. Both are for those who call, and not for the upstream, which sees one limit.
//
// An upstream may also change its limits and say nothing. A rate that is [Policy.Adaptive] follows it.
//
// # Plans and tiers
//
// A policy that is Per a scope has the same numbers for every key, unless [Policy.Override] or [Policy.OverrideBy] says that some have
// others: tenants of a larger plan, say. [Policy.For] returns what holds for a key.
//
// # As text
//
// [Parse] reads what [Policy.String] writes, so that policies can be in files and flags: "peak: 25 per 1s, burst 10, per
// tenant". [ParseAll] reads several from one text. A policy is an encoding.TextMarshaler and an encoding.TextUnmarshaler, so JSON can hold it.
//
// The package is pure: no clock, no I/O but for the time zones that Parse loads, and it imports nothing of Headway.
package policies
