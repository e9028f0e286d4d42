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

// Limits returns the stack: 5 calls a second to each base, and 50 for each user. Airtable does not document where a second begins, and a
// refusal costs 30 seconds, so both limits hold in any second, with the calls evenly spaced.
// Source: https://airtable.com/developers/web/api/rate-limits
func Limits() []policies.Policy {
	return []policies.Policy{
		policies.AtMost(5, time.Second).Per(ScopeBase).Optional().Named(PolicyBase),
		policies.AtMost(50, time.Second).Per(ScopeUser).Named(PolicyUser),
	}
}
