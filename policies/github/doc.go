// Package github knows the limits of GitHub's REST and GraphQL APIs.
//
//	p, err := pacer.New(pacer.Config{Upstream: "github", Policies: github.Limits(github.User)})
//	client, err := transport.NewClient(p, transport.WithProfile(github.Profile))
//
// # What GitHub limits
//
// The primary limit: calls per hour and credential, for each resource apart (core, search, code_search, graphql …),
// in windows that begin with the first call; searching has minutes instead. Secondary limits: 900 points a minute on
// REST, where reading costs 1 and writing 5, 2,000 points on GraphQL, 80 a minute and 500 an hour that create
// content, and 100 calls that run at once, of both APIs together: see [Concurrent].
//
// A query on GraphQL costs the primary limit points, which GitHub documents how to predict roughly: add up the requests that it
// takes to fetch every connection, if every page is full as first and last ask for it, and divide by 100; at least 1. Each call is
// charged so, from the text and the variables of its query. If the query asks for rateLimit { cost }, that corrects the charge when
// the answer was read. A query costs 1 point a minute, a mutation 5. A query that cannot be read costs 1 of each: one whose body is
// longer than 256 KiB or cannot be had twice (no GetBody), and one that GitHub has stored. A reply 304 costs the primary limit nothing.
//
// [Limits] holds a permit for each call that runs. The transport gives it back; without a transport, use Acquire of
// the pacer in place of Wait.
//
// Credentials are distinguished by a hash of the Authorization field; calls without one share the limit of their address. So two tokens of
// one user, or an installation's token and the one that replaces it after an hour, are not seen to share a limit until replies tell what is
// left of it.
//
// # How it refuses
//
// With 403 or 429. It is a limit if there is a Retry-After; if x-ratelimit-remaining is 0, until x-ratelimit-reset; or if the
// message speaks of a secondary rate limit, for at least a minute. Any other 403 is about permissions. GraphQL also answers
// 200 with an error of the type RATE_LIMITED, or one whose message speaks of a secondary rate limit.
//
// The field x-ratelimit-resource says which resource's limit it is, and the others go on. Who goes on while being
// refused by a secondary limit may be banned, and which one it was GitHub does not tell. So that pauses all calls of
// the credential; in a stack without [Concurrent], those to the same API, REST or GraphQL.
//
// # Not modelled
//
// 90 seconds of CPU time a minute. The points of REST are limited for each endpoint, and are counted for all together here.
//
// # Not known
//
// Which endpoints create content: those that this package takes for such are its own list. Which limits a resource has that
// is not named here, and those that GitHub does not disclose. Of GitHub Enterprise Server, which has none unless its
// administrator sets them.
package github
