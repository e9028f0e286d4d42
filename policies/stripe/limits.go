package stripe

import "github.com/headway-go/headway/policies"

// Names of the policies and scopes. Source of all numbers of this file: https://docs.stripe.com/rate-limits
const (
	PolicyAccount  = "account"
	PolicyEndpoint = "endpoint"
	PolicySearch   = "search"
	PolicyFiles    = "files"

	PolicyGlobalConcurrency   = "global-concurrency" // of calls at once, as in Stripe-Rate-Limited-Reason
	PolicyEndpointConcurrency = "endpoint-concurrency"

	ScopeAccount  = "account"  // the connected account, or the key
	ScopeEndpoint = "endpoint" // account, method, and path without ids
	ScopeSearch   = "search"   // the account, for calls that search
	ScopeFiles    = "files"    // account, and read or write, for calls to files
)

// A Mode is live or sandbox. Its value is how many calls per second an account has.
type Mode int64

// Modes.
const (
	Sandbox Mode = 25
	Live    Mode = 100
)

// burst is how many calls may start at once. Stripe does not document how deep its buckets are.
const burst = 5

// Limits returns the stack of accounts in this mode.
func Limits(mode Mode) []policies.Policy {
	return []policies.Policy{
		policies.PerSecond(int64(mode)).Burst(burst).Per(ScopeAccount).Optional().Named(PolicyAccount),
		policies.PerSecond(25).Burst(burst).Per(ScopeEndpoint).Optional().Named(PolicyEndpoint),
		policies.PerSecond(20).Burst(burst).Per(ScopeSearch).Optional().Named(PolicySearch),
		policies.PerSecond(20).Burst(burst).Per(ScopeFiles).Optional().Named(PolicyFiles),
	}
}

// Concurrent returns the policy of n calls that an account may have running at once. Stripe has such a limit, which calls that take long
// reach first, and documents no number: choose your own. Append it to [Limits].
// Source: https://docs.stripe.com/rate-limits
//
// It holds a permit for each call that runs. The transport gives it back; without a transport, use Acquire of the pacer in place of Wait.
func Concurrent(n int64) policies.Policy {
	return policies.InFlight(n).Per(ScopeAccount).Optional().Named(PolicyGlobalConcurrency)
}

// EndpointConcurrent returns the policy of n calls that an account may have running at once on each endpoint. Choose the number yourself,
// as that of [Concurrent].
func EndpointConcurrent(n int64) policies.Policy {
	return policies.InFlight(n).Per(ScopeEndpoint).Optional().Named(PolicyEndpointConcurrency)
}
