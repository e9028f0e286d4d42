package twilio

import "github.com/headway-go/headway/policies"

// Names of the policy and of the scope.
const (
	PolicyAccount = "account"
	ScopeAccount  = "account" // the account's SID, or a hash of the credential where the path has none
)

// Limits returns a stack that allows each account perSecond calls a second. The number is yours: Twilio documents none.
func Limits(perSecond int64) []policies.Policy {
	return []policies.Policy{policies.PerSecond(perSecond).Per(ScopeAccount).Named(PolicyAccount)}
}
