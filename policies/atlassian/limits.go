package atlassian

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policies and scopes.
const (
	PolicyApp        = "global-app-quota"
	PolicyTenant     = "tenant-quota"
	PolicyReads      = "reads"
	PolicyWrites     = "writes"
	PolicyIssue      = "issue"
	PolicyIssueBurst = "issue-burst"

	ScopeApp    = "app"    // hash of the credential
	ScopeTenant = "tenant" // host or cloud id
	ScopeReads  = "reads"  // endpoint, for GET and POST
	ScopeWrites = "writes" // endpoint, for PUT, PATCH and DELETE
	ScopeIssue  = "issue"  // tenant and issue, for calls that write to one
)

// Limits returns the stack of an app or token.
// Source of all numbers of this file: https://developer.atlassian.com/cloud/jira/platform/rate-limiting/
func Limits() []policies.Policy {
	return []policies.Policy{
		policies.PerSecond(100).Burst(50).Per(ScopeReads).Optional().Named(PolicyReads),
		policies.PerSecond(50).Burst(25).Per(ScopeWrites).Optional().Named(PolicyWrites),
		policies.Sliding(20, 2*time.Second).Per(ScopeIssue).Optional().Named(PolicyIssueBurst),
		policies.Sliding(100, 30*time.Second).Per(ScopeIssue).Optional().Named(PolicyIssue),
	}
}

// AppQuota returns the policy of the pool that a Forge, Connect or OAuth app has for all of its tenants: 65,000 points an hour. Append it
// to [Limits].
func AppQuota() policies.Policy {
	return policies.Sliding(65_000, time.Hour).Per(ScopeApp).Named(PolicyApp)
}

// TenantQuota returns the policy of an app that has n points an hour in each tenant. Append it to [Limits].
func TenantQuota(n int64) policies.Policy {
	return policies.Sliding(n, time.Hour).Per(ScopeTenant).Named(PolicyTenant)
}
