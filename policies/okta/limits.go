package okta

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policies and of the scopes.
const (
	PolicyEndpoint   = "endpoint"
	PolicyConcurrent = "concurrent"

	ScopeEndpoint = "endpoint" // org, method, and path without ids
	ScopeOrg      = "org"      // the host
)

// Limits returns a stack that allows perMinute calls a minute to each endpoint. Okta counts minutes that begin at a reset that it reports,
// so the policy holds in any minute.
// Source: https://developer.okta.com/docs/reference/rate-limits/
func Limits(perMinute int64) []policies.Policy {
	return []policies.Policy{
		policies.AtMost(perMinute, time.Minute).Burst(max(1, min(perMinute/10, 10))).Per(ScopeEndpoint).Named(PolicyEndpoint),
	}
}

// A Plan is the plan of an org. Its value is how many calls the org may have running at once.
//
// Source: https://developer.okta.com/docs/reference/rl2-concurrency/
type Plan int64

// Plans.
const (
	IntegratorFree    Plan = 35
	CustomerIdentity  Plan = 75
	WorkforceIdentity Plan = 75
)

// Concurrent returns the policy of all calls that an org with this plan may have running at once, no matter who made them. Traffic of
// Microsoft Office 365 and of agents is counted separately. A multiplier (DynamicScale or Workforce) raises the number: Concurrent(150) is
// for an org that may have 150. Append it to [Limits], as in
//
//	append(okta.Limits(600), okta.Concurrent(okta.WorkforceIdentity))
//
// It holds a permit for each call that runs. The transport gives it back; without a transport, use Acquire of the pacer in place of Wait.
func Concurrent(plan Plan) policies.Policy {
	return policies.InFlight(int64(plan)).Per(ScopeOrg).Named(PolicyConcurrent)
}
