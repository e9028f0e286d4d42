// Package ietf reads what upstreams report about limits in the fields of standards and in other widely used fields, and writes such fields
// for servers: see [Write]. Package transport uses its profile unless you set a vendor's:
//
//	pacing, err := transport.New(p) // the same as transport.WithProfile(ietf.Profile)
//
// A vendor's own profile knows more, and guesses nothing. Use it if there is one.
//
// # What a reply means
//
// A 429 (RFC 6585 section 4) means that a limit refused the call, and that the call was not processed. The wait is reported by the first of
//
//   - Retry-After (RFC 9110 section 10.2.3), which takes precedence;
//   - the t of RateLimit, of the item with r=0; the latest of several;
//   - the reset of an older form of it, if nothing remains;
//
// and is 0 if none of them reports it: then the store guesses. A 503 with Retry-After requests that everyone waits, but the call may have
// been processed: status and method decide whether to repeat it. A 503 without it reports nothing.
//
// If the body is a problem of type quota-exceeded, temporary-reduced-capacity or abnormal-usage-detected, the refusal is about its
// violated-policies. Otherwise it is about the item whose t was used, or about everyone.
//
// # What is left
//
// Counts are read from replies with any status, unless they come from a cache (a positive Age). The first of these forms that a reply has
// is used; services that send several mean the same by them:
//
//   - RateLimit as of draft-ietf-httpapi-ratelimit-headers-08, to -11: a list such as "burst";r=50;t=30. An item without r has plenty left. The q
//     and w of a quota of RateLimit-Policy belong to the item of the same name;
//   - RateLimit of draft -07: limit=100, remaining=50, reset=5;
//   - RateLimit-Limit, -Remaining and -Reset of the drafts before;
//   - X-RateLimit-Limit, -Remaining and -Reset, which no standard describes;
//   - X-Rate-Limit-Limit, -Remaining and -Reset, likewise.
//
// The window of the last four is that of the quota of the same size, in RateLimit-Policy (100;w=10) or in the limit itself (100, 100;w=10).
// Some services have a field of their own for it, -Period or -Interval. Quotas of RateLimit-Policy that nothing else in the reply refers to
// are limits, too. An item whose name is a valid policy name is about the policy of that name; if the stack has none, about the widest
// scope that binds the call. Remaining counts may have decimals (Reddit), which are dropped. A 429 with a reset that does not report what
// remains (Mapbox) requests a wait until the reset.
//
// x-amzn-RateLimit-Limit (Amazon's Selling Partner API) is the rate of one operation, and does not state what is left. It is about the
// policy named [PolicyOperation]; if the stack has none, it is a pace of the endpoint, if a policy is per endpoint, or else of all calls.
//
// Quota units other than requests (qu) are not about calls: their counts are not used, only the t of one that refused a call. Partition
// keys (pk) are ignored. A rate is never derived from r and t: a server that allows ten calls in a second may report r=10000;t=10. A field
// with anything malformed in it is ignored as a whole. A field of more than 4 KiB counts as absent, and
// a reset that is more than a year away is ignored.
//
// # Resets
//
// The fields that end in -Reset mean seconds from now at some services and an instant at others. The drafts require seconds, but Twitch,
// GitLab and DigitalOcean document an instant under the drafts' name. The form of the value decides, as [fields.Wait] describes; any other
// value, such as -1, reports nothing.
//
// -Reset-After (Discord) and -Retry-After (MailerLite) take precedence over -Reset, and that over -ResetTime (Yelp, GitLab). The t of
// RateLimit is always seconds from now. An instant is compared with the reply's Date. A reset of 0 stands for "unknown" at some services,
// and requests no wait.
//
// A service that counts in milliseconds from now is misread here: a reset of 600000 is a week. It needs a profile of its own.
//
// # What is not known
//
// Whether X-RateLimit counts calls, over which window, and for whom. Names with a prefix, such as Atlassian's Beta-RateLimit, are for the
// profile of that vendor.
package ietf
