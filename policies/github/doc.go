// Package github knows the limits of GitHub's REST and GraphQL APIs.
//
//	p, err := pacer.New(pacer.Config{Upstream: "github", Policies: github.Limits(github.User)})
//	client, err := transport.NewClient(p, transport.WithProfile(github.Profile))
//
// # What GitHub limits
//
// The primary limit: calls per hour and credential, for each resource apart (core, search, graphql …), in windows that begin
// with the first call. Secondary limits: 900 points a minute on REST, where reading costs 1 and writing 5, 2,000 points on
// GraphQL, and 80 a minute and 500 an hour that create content. Searching has 30 calls a minute.
//
// Credentials are told apart by a hash of the Authorization field; calls without one share the limit of their address.
//
// # How it refuses
//
// With 403 or 429. It is a limit if there is a Retry-After; if x-ratelimit-remaining is 0, until x-ratelimit-reset; or if the
// message speaks of a secondary rate limit, for at least a minute. Any other 403 is about permissions. The field
// x-ratelimit-resource says which resource's limit it is; a secondary limit is the credential's. GraphQL answers 200 with an
// error of the type RATE_LIMITED. Who goes on while being refused may be banned, so a secondary refusal pauses all calls of
// the credential.
//
// # Not modelled
//
// 100 calls at once; 90 seconds of CPU time a minute; what GraphQL queries cost: they are counted as one point.
package github
