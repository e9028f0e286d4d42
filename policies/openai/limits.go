package openai

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policies and scopes.
const (
	PolicyRequests    = "requests"
	PolicyTokens      = "tokens"
	PolicyRequestsDay = "requests-day"
	PolicyTokensDay   = "tokens-day"

	ScopeProject = "project" // hash of credential, organization and project
	ScopeModel   = "model"   // carried by calls that name one
)

// Limits returns the stack of a model with these limits per minute, from the limits page of the account.
// Source of how they are counted: https://platform.openai.com/docs/guides/rate-limits
func Limits(requests, tokens int64) []policies.Policy {
	return []policies.Policy{
		policies.PerMinute(requests).Burst(max(1, requests)).Per(ScopeProject, ScopeModel).Optional().Named(PolicyRequests),
		policies.PerMinute(tokens).Burst(max(1, tokens)).Per(ScopeProject, ScopeModel).Optional().Named(PolicyTokens),
	}
}

// RequestsPerDay returns the policy of models that also have a number of requests a day.
func RequestsPerDay(n int64) policies.Policy {
	return policies.Rate(n, 24*time.Hour).Burst(max(1, n)).Per(ScopeProject, ScopeModel).Optional().Named(PolicyRequestsDay)
}

// TokensPerDay returns the policy of models that also have a number of tokens a day.
func TokensPerDay(n int64) policies.Policy {
	return policies.Rate(n, 24*time.Hour).Burst(max(1, n)).Per(ScopeProject, ScopeModel).Optional().Named(PolicyTokensDay)
}
