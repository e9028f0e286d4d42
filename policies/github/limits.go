package github

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policies and scopes. Primary limits have their names in x-ratelimit-resource. Source of all numbers of this file, where no
// other is named: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
const (
	PolicyCore          = "core"
	PolicySearch        = "search"
	PolicyCodeSearch    = "code_search"
	PolicyGraphQL       = "graphql"
	PolicyPoints        = "points"
	PolicyGraphQLPoints = "graphql-points"
	PolicyContent       = "content"
	PolicyContentHour   = "content-hour"
	PolicyConcurrent    = "concurrent"

	ScopeCore       = "core" // the credential, or the host if there is none, as in all scopes here; only calls to core carry it
	ScopeSearch     = "search"
	ScopeCodeSearch = "code_search"
	ScopeGraphQL    = "graphql"
	ScopeREST       = "rest"
	ScopeContent    = "content"
	ScopeCredential = "credential" // carried by every call
)

// A Kind is a kind of credential. Its value is how many calls per hour it has.
type Kind int64

// Kinds of credentials.
const (
	// Anonymous is for calls without a credential, which share 60 for each address.
	Anonymous Kind = 60
	// Actions is the GITHUB_TOKEN of a workflow, for each repository.
	Actions Kind = 1_000
	// User is a personal token, together with all OAuth and GitHub Apps that act for the same user.
	User Kind = 5_000
	// Enterprise is a user or an installation of an App, in an organization on GitHub Enterprise Cloud.
	Enterprise Kind = 15_000
)

// graphQL returns how many points an hour a kind has on GraphQL: as many as it has calls on REST, except on Enterprise Cloud.
// Source: https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api#primary-rate-limit
func (k Kind) graphQL() int64 {
	if k == Enterprise {
		return 10_000
	}
	return int64(k)
}

// search returns how many searches a minute a kind has, except searches for code, and their burst.
// Source: https://docs.github.com/en/rest/search/search#rate-limit
func (k Kind) search() (n, burst int64) {
	if k == Anonymous {
		return 10, 2
	}
	return 30, 5
}

// codeSearches is how many searches for code a minute every kind has. Source: the same page; older copies of it have 10.
const codeSearches = 9

// Installation returns the Kind of an App's installation: 5,000, and 50 more for each repository above 20 and for each
// user above 20, at most 12,500.
func Installation(repositories, users int64) Kind {
	const most = 12_500
	above := func(n int64) int64 { return min(max(20, n), most) - 20 }
	return Kind(min(most, 5_000+50*above(repositories)+50*above(users)))
}

// Concurrent returns the policy of the calls that a credential may have running: 100 at once, on REST and GraphQL together.
// Source: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
func Concurrent() policies.Policy {
	return policies.InFlight(100).Per(ScopeCredential).Optional().Named(PolicyConcurrent)
}

// Limits returns the stack of a credential. GitHub's hour begins with the first call, so the primary limit holds in any hour. All of it may
// be spent at once, as far as the points and [Concurrent], which is part of the stack, allow.
func Limits(kind Kind) []policies.Policy {
	hour := func(name, scope string, n int64) policies.Policy {
		return policies.Sliding(n, time.Hour).Per(scope).Optional().Named(name)
	}
	minute := func(name, scope string, n, burst int64) policies.Policy {
		return policies.AtMost(n, time.Minute).Burst(burst).Per(scope).Optional().Named(name)
	}
	searches, burst := kind.search()
	return []policies.Policy{
		hour(PolicyCore, ScopeCore, int64(kind)),
		minute(PolicySearch, ScopeSearch, searches, burst),
		minute(PolicyCodeSearch, ScopeCodeSearch, codeSearches, 1),
		hour(PolicyGraphQL, ScopeGraphQL, kind.graphQL()),
		minute(PolicyPoints, ScopeREST, 900, 50),
		minute(PolicyGraphQLPoints, ScopeGraphQL, 2_000, 50),
		minute(PolicyContent, ScopeContent, 80, 5),
		hour(PolicyContentHour, ScopeContent, 500),
		Concurrent(),
	}
}
