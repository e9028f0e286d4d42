package twilio

import "github.com/headway-go/headway/policies"

// Names of the policies and scopes.
const (
	PolicyAccount    = "account"
	PolicyCalls      = "calls"
	PolicyConcurrent = "concurrent"

	ScopeAccount  = "account"  // the account's SID, or a hash of the credential if the SID is not known
	ScopeEndpoint = "endpoint" // carried by requests that start a telephone call: EndpointCalls

	EndpointCalls = "calls"
)

// Limits returns a stack that allows each account perSecond requests a second, evenly spaced. Choose the number yourself: Twilio documents
// none.
func Limits(perSecond int64) []policies.Policy {
	return []policies.Policy{policies.PerSecond(perSecond).Per(ScopeAccount).Named(PolicyAccount)}
}

// Calls returns the policy of requests that start a telephone call: perSecond a second for each account, which is 1 unless Twilio granted
// yours more. Twilio does not refuse what comes faster but queues it, so the policy keeps Twilio's queue short.
// Source: https://support.twilio.com/hc/en-us/articles/223180028
func Calls(perSecond int64) policies.Policy {
	return policies.PerSecond(perSecond).Per(ScopeAccount, ScopeEndpoint).Optional().Named(PolicyCalls)
}

// Concurrent returns the policy of n requests that an account may have running at once. Twilio has such a limit, which differs by account,
// and documents no number: choose your own. Append it to [Limits].
// Source: https://www.twilio.com/docs/api/errors/20429
//
// It holds a permit for each request that runs. The transport gives it back; without a transport, use Acquire of the pacer in place of
// Wait.
func Concurrent(n int64) policies.Policy {
	return policies.InFlight(n).Per(ScopeAccount).Named(PolicyConcurrent)
}
