package okta

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policy and of the scope.
const (
	PolicyEndpoint = "endpoint"
	// LimitConcurrent is the number of calls at once. There is no policy for it.
	LimitConcurrent = "concurrent"

	ScopeEndpoint = "endpoint" // org, method, and path without ids
)

// Limits returns a stack that allows perMinute calls a minute to each endpoint. Okta counts minutes that begin at a reset
// it tells, so the policy holds in any minute.
// Source: https://developer.okta.com/docs/reference/rate-limits/
func Limits(perMinute int64) []policies.Policy {
	return []policies.Policy{
		policies.AtMost(perMinute, time.Minute).Burst(max(1, min(perMinute/10, 10))).Per(ScopeEndpoint).Named(PolicyEndpoint),
	}
}
