package anthropic

import "github.com/headway-go/headway/policies"

// Names of the policies and scopes.
const (
	PolicyRequests     = "requests"
	PolicyInputTokens  = "input-tokens"
	PolicyOutputTokens = "output-tokens"

	ScopeKey   = "key"   // hash of the key
	ScopeModel = "model" // carried by calls that name one
)

// Limits returns the stack of a model with these limits per minute, which the organization's console shows. A burst is a whole minute's
// worth, the capacity of Anthropic's own bucket. It is also the highest cost that one call may have. The transport charges a call whose
// estimated input is higher the whole burst, and settles it afterwards: most of the input may be cached. Anthropic may enforce a limit over
// shorter times, such as one request a second for 60 a minute. If it refuses bursts, give the policies a smaller one with
// [policies.Policy.Burst].
// Source of how they are counted: https://docs.anthropic.com/en/api/rate-limits
func Limits(requests, inputTokens, outputTokens int64) []policies.Policy {
	minute := func(name string, n int64) policies.Policy {
		return policies.PerMinute(n).Burst(max(1, n)).Per(ScopeKey, ScopeModel).Optional().Named(name)
	}
	return []policies.Policy{
		minute(PolicyRequests, requests), minute(PolicyInputTokens, inputTokens), minute(PolicyOutputTokens, outputTokens),
	}
}
