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
	ScopeSearch   = "search"   // the account, of calls that search
	ScopeFiles    = "files"    // account and reading or writing, of calls for files
)

// A Mode is live or not, by its calls per second.
type Mode int64

// Modes.
const (
	Sandbox Mode = 25
	Live    Mode = 100
)

// burst is how many calls may go at once. Stripe does not tell how deep its buckets are.
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

// Concurrent returns the policy of n calls that an account has running at once. Stripe has such a limit, which calls
// that take long meet first, and documents no number: it is yours. Append it to [Limits].
// Source: https://docs.stripe.com/rate-limits
//
// It holds a permit for each call that runs. The transport gives it back; without a transport, use Acquire of the
// pacer in place of Wait.
func Concurrent(n int64) policies.Policy {
	return policies.InFlight(n).Per(ScopeAccount).Optional().Named(PolicyGlobalConcurrency)
}

// EndpointConcurrent returns the policy of n calls that an account has running at once on each endpoint. The number
// is yours, as that of [Concurrent].
func EndpointConcurrent(n int64) policies.Policy {
	return policies.InFlight(n).Per(ScopeEndpoint).Optional().Named(PolicyEndpointConcurrency)
}
