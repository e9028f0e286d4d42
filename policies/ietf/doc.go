// Package ietf reads what upstreams say about limits in the words of standards and of wide use, and writes it for servers: see [Write].
// It is what package transport goes by unless it is given a vendor's profile:
//
//	pacing, err := transport.New(p) // the same as transport.WithProfile(ietf.Profile)
//
// A vendor's own profile knows more, and guesses nothing. Use it if there is one.
//
// # What a reply says
//
// A 429 (RFC 6585 section 4) was refused because of a limit, and not processed. How long to wait is said by the first of
//
//   - Retry-After (RFC 9110 section 10.2.3), which takes precedence;
//   - the t of RateLimit, of the item with r=0; the latest of several;
//   - the reset of an older form of it, if nothing remains;
//
// and is 0 if none of them says it: then only the refused call backs off. A 503 with Retry-After asks everyone to wait,
// but the call may have been processed: status and method decide whether to repeat it. A 503 without it says nothing.
//
// If the body is a problem of type quota-exceeded, temporary-reduced-capacity or abnormal-usage-detected, its
// violated-policies are the policies that are meant. Otherwise that is the item whose t was used, or everyone.
//
// # What is left
//
// Counts are read from replies with any status, unless they come from a cache (a positive Age). The first of these
// forms that a reply has is used; services that send several mean the same by them:
//
//   - RateLimit as of draft-ietf-httpapi-ratelimit-headers-08: a list such as "burst";r=50;t=30. An item without r has
//     plenty left. What a quota of RateLimit-Policy with the same name says (q and w) belongs to it;
//   - RateLimit of draft -07: limit=100, remaining=50, reset=5;
//   - RateLimit-Limit, -Remaining and -Reset of the drafts before;
//   - X-RateLimit-Limit, -Remaining and -Reset, which no standard describes;
//   - X-Rate-Limit-Limit, -Remaining and -Reset, likewise.
//
// The window of the last four is that of the quota of the same size, in RateLimit-Policy (100;w=10) or in the limit itself
// (100, 100;w=10). Some services have a field of their own for it, -Period or -Interval. Quotas of RateLimit-Policy that nothing
// else is said about are limits, too. An item whose name is a valid one is about the policy of that name; if the stack has none,
// about the widest scope that binds the call. What remains may have decimals (Reddit), which are dropped. A 429 with a reset, and
// nothing on what remains (Mapbox), waits for that.
//
// Quota units other than requests (qu) are not about calls: their counts are not used, only the t of one that refused a
// call. Partition keys (pk) are not looked at. A rate is never derived from r and t: a server may say r=10000;t=10 of ten calls
// in a second. A field with anything malformed in it is ignored as a whole. A reset that is more than a year away is not believed.
//
// # Resets
//
// The fields that end in -Reset mean seconds from now at some services and an instant at others. The drafts ask for seconds, but
// Twitch, GitLab and DigitalOcean document an instant under the drafts' name. Its looks tell which:
//
//	below 10^9            seconds from now
//	10^9 to 10^11         seconds since the Unix epoch
//	above 10^11           milliseconds since the Unix epoch
//	6m0s, 1.5s            that long from now
//	RFC 3339              that instant
//	an HTTP date          that instant, and one as Ruby's and JavaScript's Date print it
//	anything else         nothing, such as -1
//
// -Reset-After (Discord) and -Retry-After (MailerLite) are seconds from now, and go before it. The t of RateLimit is always that.
// An instant is compared with the reply's Date. A reset of 0 stands for "unknown" at some services, and asks for nothing.
//
// Only this profile goes by looks, for want of a better way: the profile of a vendor never guesses. A service that counts
// in milliseconds from now is misread here: a reset of 600000 is a week. It needs a profile of its own.
//
// # What is not known
//
// Whether what X-RateLimit counts is calls, over which window, and for whom. Names with a prefix, such as
// Atlassian's Beta-RateLimit, are for the profile of that vendor.
package ietf
