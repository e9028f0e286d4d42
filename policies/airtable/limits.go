package airtable

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policies and scopes.
const (
	PolicyBase = "base"
	PolicyUser = "user"

	ScopeBase = "base" // the base's id
	ScopeUser = "user" // hash of the credential
)

// Limits returns the stack: 5 calls a second to a base, 50 of a user. Where a second begins is not documented and a refusal
// costs 30 seconds, so both hold in any second, evenly spread.
// Source: https://airtable.com/developers/web/api/rate-limits
func Limits() []policies.Policy {
	return []policies.Policy{
		policies.AtMost(5, time.Second).Per(ScopeBase).Optional().Named(PolicyBase),
		policies.AtMost(50, time.Second).Per(ScopeUser).Named(PolicyUser),
	}
}
