// Package github describes the limits of GitHub's REST and GraphQL APIs.
//
//	p, err := pacer.New(pacer.Config{Upstream: "github", Policies: github.Limits(github.User)})
//	client, err := transport.NewClient(p, transport.WithProfile(github.Profile))
//
// # What GitHub limits
//
// The primary limit counts calls per hour and credential, separately for each resource (core, search, code_search, graphql …), in windows
// that begin with the first call. Searches are counted per minute instead. The secondary limits are:
//
//   - 900 points a minute on REST, where a read costs 1 and a write 5;
//   - 2,000 points a minute on GraphQL, where a query costs 1 and a mutation 5;
//   - 80 calls a minute and 500 an hour that create content;
//   - 100 calls that run at once, on both APIs together: see [Concurrent].
//
// A GraphQL query also costs points of the primary limit, which GitHub documents how to predict roughly: add up the requests that it takes
// to fetch every connection, if every page is as full as first and last request, and divide by 100; the cost is at least 1. The profile
// charges each call this number, which it reads from the text and the variables of the query. If the query selects rateLimit { cost }, the
// answer corrects the charge once it has been read. A query that the profile cannot read costs 1 point of each limit: one whose body is
// longer than 256 KiB or can be read only once (no GetBody), and one that GitHub has stored. A reply with 304 to a call with a credential
// costs the primary limit nothing.
//
// [Limits] holds a permit for each call that runs. The transport gives it back; without a transport, use Acquire of the pacer in place of
// Wait.
//
// A hash of the Authorization field distinguishes credentials; calls without one share the limit of their address. So two tokens of one
// user look like two credentials, and so do an installation's token and the one that replaces it after an hour, until replies report what
// is left of the limit that they share.
//
// # How it refuses
//
// GitHub answers 403 or 429. A 429 is always about a limit. A 403 is about a limit if it has a Retry-After, if x-ratelimit-remaining is 0,
// or if its message mentions a secondary rate limit. Any other 403 is about permissions. The wait is Retry-After; otherwise it lasts until
// x-ratelimit-reset if x-ratelimit-remaining is 0, and otherwise for a minute, the least that GitHub requests. GraphQL also answers 200
// with an error of the type RATE_LIMITED, or without data and with an error whose message mentions a secondary rate limit.
//
// The field x-ratelimit-resource names the resource whose primary limit refused the call. Calls to the other resources continue. GitHub may
// ban clients that continue while a secondary limit refuses their calls, and it does not report which of the secondary limits refused. So
// such a refusal pauses all calls of the credential or, in a stack without [Concurrent], the calls to the same API, REST or GraphQL.
//
// # Not modelled
//
// 90 seconds of CPU time a minute. GitHub limits the points of REST for each endpoint; here, all endpoints share one count.
//
// # Not known
//
// Which endpoints create content: this package has its own list. The limits of resources that are not named here, and limits that GitHub
// does not disclose. The limits of GitHub Enterprise Server, which has none unless its administrator sets them.
package github
