package shopify

import "github.com/headway-go/headway/policies"

// Names of the policies and scopes. Each scope's value is the store and the app.
const (
	PolicyREST    = "rest"
	PolicyGraphQL = "graphql"

	ScopeREST    = "rest"    // carried by calls to REST
	ScopeGraphQL = "graphql" // carried by queries
)

// A Plan is the plan of a store.
type Plan int

// Plans. Source of all numbers of this file: https://shopify.dev/docs/api/usage/limits and
// https://shopify.dev/docs/api/admin-rest/usage/rate-limits
const (
	Standard   Plan = iota + 1 // 2 calls and 100 points a second
	Advanced                   // 4 calls and 200 points a second
	Plus                       // 20 calls and 1,000 points a second
	Enterprise                 // 40 calls and 2,000 points a second
)

const (
	// bucketSeconds is how many seconds a full bucket takes to run empty: 40 calls at 2 a second.
	bucketSeconds = 20
	// largestQuery is the most that a single query may cost, whatever the plan.
	largestQuery = 1_000
)

// Limits returns the stack of stores with this plan.
func Limits(plan Plan) []policies.Policy {
	var calls, points int64
	switch plan {
	case Standard:
		calls, points = 2, 100
	case Advanced:
		calls, points = 4, 200
	case Plus:
		calls, points = 20, 1_000
	case Enterprise:
		calls, points = 40, 2_000
	}
	return []policies.Policy{
		policies.PerSecond(calls).Burst(max(1, calls*bucketSeconds)).Per(ScopeREST).Optional().Named(PolicyREST),
		policies.PerSecond(points).Burst(max(largestQuery, points*bucketSeconds/2)).Per(ScopeGraphQL).Optional().Named(PolicyGraphQL),
	}
}
