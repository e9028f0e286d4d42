package notion

import "github.com/headway-go/headway/policies"

// Names of the policy and of the scope.
const (
	PolicyIntegration = "integration"
	ScopeIntegration  = "integration" // hash of the credential
)

// Limits returns the stack of an integration: 3 calls a second on average. Notion allows some bursts and does not document how large, so
// three calls may start at once: a second's worth. Source: https://developers.notion.com/reference/request-limits
func Limits() []policies.Policy {
	return []policies.Policy{policies.PerSecond(3).Burst(3).Per(ScopeIntegration).Named(PolicyIntegration)}
}
