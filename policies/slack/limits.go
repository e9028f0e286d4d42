package slack

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policies and scopes. Source of all numbers of this file: https://docs.slack.dev/apis/web-api/rate-limits
const (
	PolicyTier1       = "tier-1"
	PolicyTier2       = "tier-2"
	PolicyTier3       = "tier-3"
	PolicyTier4       = "tier-4"
	PolicyOtherMethod = "other-method"
	PolicyPost        = "post"
	PolicyHistory     = "history"

	ScopeToken       = "token"        // hash of the credential
	ScopeTier1       = "tier-1"       // the method, if it is of that tier
	ScopeTier2       = "tier-2"       // the method, if it is of that tier
	ScopeTier3       = "tier-3"       // the method, if it is of that tier
	ScopeTier4       = "tier-4"       // the method, if it is of that tier
	ScopeOtherMethod = "other-method" // the method, if its tier is not known
	ScopeChannel     = "channel"      // the channel of a message; not in a request: set it yourself
	ScopeHistory     = "history"      // the method, if it reads the history of a conversation
)

// burst is the burst of a method; Slack documents "some".
const burst = 2

// Limits returns the stack of an app.
func Limits() []policies.Policy {
	tier := func(name string, n int64) policies.Policy {
		return policies.AtMost(n, time.Minute).Burst(min(n, burst)).Per(ScopeToken, name).Optional().Named(name)
	}
	return []policies.Policy{
		tier(PolicyTier1, 1),
		tier(PolicyTier2, 20),
		tier(PolicyTier3, 50),
		tier(PolicyTier4, 100),
		// No limit is known. The policy is there to be paused; 1,000 a second is faster than any tier.
		policies.PerSecond(1000).Burst(1000).Per(ScopeToken, ScopeOtherMethod).Optional().Named(PolicyOtherMethod),
		policies.PerSecond(1).Per(ScopeToken, ScopeChannel).Optional().Named(PolicyPost),
	}
}

// NonMarketplace returns the policy of commercially distributed apps outside the Marketplace that were created since 29 May 2025: one call
// a minute to each of conversations.history and conversations.replies. Append it to [Limits].
func NonMarketplace() policies.Policy {
	return policies.AtMost(1, time.Minute).Per(ScopeToken, ScopeHistory).Optional().Named(PolicyHistory)
}
