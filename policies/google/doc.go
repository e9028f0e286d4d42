// Package google knows how Google's APIs limit calls: those of Workspace, such as Calendar, and others that answer
// alike.
//
//	p, err := pacer.New(pacer.Config{Upstream: "google-calendar", Policies: google.Limits(10_000, 600)})
//	client, err := transport.NewClient(p, transport.WithProfile(google.Profile))
//
// # What Google limits
//
// Calls per minute of a project, and calls per minute of each user of it, both in sliding windows, for each API
// apart. The numbers differ by API and project: take them from the Quotas page of the project's console. Because
// they are not the same for two APIs, give each API a pacer of its own; within one pacer, calls to different APIs
// are counted apart.
//
// No request says which project it belongs to, so a pacer is for one project. Only the field X-Goog-User-Project, which
// charges another project, tells projects apart.
//
// The user is the quotaUser parameter (or X-Goog-Quota-User), otherwise a hash of the Authorization field. An
// access token lives for an hour, and its successor looks like another user: where the limit per user matters, and
// an API key is sent, set quotaUser. Calls with neither belong to the user that Google sees behind their address;
// the limit per user does not bind them here.
//
// # How it refuses
//
// With 403 or 429; the body says why. Of domain usageLimits, rateLimitExceeded is the project's limit and
// userRateLimitExceeded the user's; both may be repeated. quotaExceeded and dailyLimitExceeded are for longer:
// repeating soon is pointless. Newer APIs send the status RESOURCE_EXHAUSTED, or an ErrorInfo with
// RATE_LIMIT_EXCEEDED, and maybe a RetryInfo. Any other 403 is about permissions. A 429 is a limit whatever its
// body, of the project if it does not say.
//
// Google promises no Retry-After. A valid one is heeded, then RetryInfo; without either only the refused call backs
// off. No reply tells what is left.
//
// # Not modelled
//
// Calls in a batch, which Google counts one by one; what a call costs in quota units, such as Gmail's; calls per day;
// calls that run at once, of which Gmail limits those for one user and tells no number.
//
// # What is not known
//
// When a day's quota comes back; whether an API sends limits with another domain on a 403 (those are not recognised).
package google
