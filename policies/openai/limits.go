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

// Limits returns the stack of a model with these limits per minute, from the limits page of the account. They refill continuously, and a
// burst is a whole minute's worth. That is also the highest cost that one call may have: the transport charges a call whose estimate is
// higher the whole burst, and settles it afterwards. OpenAI may enforce a limit over shorter times, such as 1,000 a second for 60,000 a
// minute. If it refuses bursts, give the policies a smaller one with [policies.Policy.Burst]. Calls in flight may use more tokens than they
// were charged: a burst a twentieth smaller keeps room for that.
// Sources: https://platform.openai.com/docs/guides/rate-limits,
// https://help.openai.com/en/articles/6891753-what-are-the-best-practices-for-managing-my-rate-limits-in-the-api
func Limits(requests, tokens int64) []policies.Policy {
	return []policies.Policy{
		policies.PerMinute(requests).Burst(max(1, requests)).Per(ScopeProject, ScopeModel).Optional().Named(PolicyRequests),
		policies.PerMinute(tokens).Burst(max(1, tokens)).Per(ScopeProject, ScopeModel).Optional().Named(PolicyTokens),
	}
}

// RequestsPerDay returns the policy of a model that also has n requests a day. It refills continuously, like the limits per minute, because
// OpenAI does not document how a day is counted.
func RequestsPerDay(n int64) policies.Policy {
	return policies.Rate(n, 24*time.Hour).Burst(max(1, n)).Per(ScopeProject, ScopeModel).Optional().Named(PolicyRequestsDay)
}

// TokensPerDay returns the policy of a model that also has n tokens a day, counted like [RequestsPerDay].
func TokensPerDay(n int64) policies.Policy {
	return policies.Rate(n, 24*time.Hour).Burst(max(1, n)).Per(ScopeProject, ScopeModel).Optional().Named(PolicyTokensDay)
}
