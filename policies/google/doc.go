// Package google describes how Google's APIs limit calls: those of Workspace, such as Calendar, and others that answer in the same way.
//
//	p, err := pacer.New(pacer.Config{Upstream: "google-calendar", Policies: google.Limits(10_000, 600)})
//	client, err := transport.NewClient(p, transport.WithProfile(google.Profile))
//
// # What Google limits
//
// Google limits the calls per minute of a project, and those of each of its users, both in sliding windows and separately for each API. The
// numbers differ by API and project: take them from the Quotas page of the project's console. Because two APIs have different numbers, give
// each API a pacer of its own. Within one pacer, calls to different APIs are counted separately.
//
// No request names its project, so a pacer is for one project. Only the field X-Goog-User-Project, which charges another project,
// distinguishes projects.
//
// The user is the quotaUser parameter (or X-Goog-Quota-User), otherwise a hash of the Authorization field. An access token is valid for an
// hour, and its successor looks like another user. If the limit per user matters, and you send an API key, set quotaUser. Google counts
// calls with neither for the user that it sees behind their address. Here, the limit per user does not bind them.
//
// # How it refuses
//
// Google answers 403 or 429; the body reports why. Reasons count in the domains usageLimits and global, which is the default, and
// youtube.quota. rateLimitExceeded is about the limit that the message names, such as 'Queries per minute per user', or about the user's if
// the message begins with "User-rate limit exceeded" (Gmail); otherwise about the project's. userRateLimitExceeded is about the user's limit.
// Both calls may be repeated. quotaExceeded (YouTube's quota of a day, too) and dailyLimitExceeded last longer: repeating the call soon is
// pointless. Newer APIs send the status RESOURCE_EXHAUSTED, or an ErrorInfo with RATE_LIMIT_EXCEEDED, and maybe a RetryInfo. The limit is
// then the one that quotaId, quota_limit or quota_unit names: the quota of a day (…PerDay…, 1/d/{project}), or the user's.
// RESOURCE_QUOTA_EXCEEDED means that too many resources exist: the call is not repeated, and no other call is paused. Any other 403 is about
// permissions. A 429 is always about a limit: that of the project, if the body names none.
//
// Google promises no Retry-After. The wait is a valid Retry-After, otherwise RetryInfo, otherwise the instant in a message of Gmail.
// Without any of these, the wait is a guess of the store. No reply reports what is left.
//
// # Not modelled
//
// Calls in a batch, which Google counts one by one; what a call costs in quota units, such as Gmail's; calls per day; calls that run at
// once, which Gmail limits for each user without documenting a number.
//
// # What is not known
//
// When the quota of a day is available again; whether an API reports limits in another domain with a 403 (these are not recognised).
package google
