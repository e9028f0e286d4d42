package airtable

import "github.com/headway-go/headway/policies"

// Names of the policies and scopes.
const (
	PolicyBase = "base"
	PolicyUser = "user"

	ScopeBase = "base" // the base's id
	ScopeUser = "user" // hash of the credential
)

// Limits returns the stack: 5 calls a second to a base, 50 of a user. Airtable documents no burst.
// Source: https://airtable.com/developers/web/api/rate-limits
func Limits() []policies.Policy {
	return []policies.Policy{
		policies.PerSecond(5).Per(ScopeBase).Optional().Named(PolicyBase),
		policies.PerSecond(50).Per(ScopeUser).Named(PolicyUser),
	}
}
