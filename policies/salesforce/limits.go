package salesforce

import (
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// Names of the policies and of the scope.
const (
	// PolicyDaily is the org's allocation.
	PolicyDaily = "daily"
	// PolicyShare is the part of the allocation that [Share] allows some calls.
	PolicyShare = "daily-share"
	// PolicyConcurrent is the number of long calls at once. In a stack without it, a refusal by that limit delays only the refused call.
	PolicyConcurrent = "concurrent"
	// ScopeOrg is the org: the host of the request.
	ScopeOrg = "org"
)

// An Edition is what an org has bought.
type Edition int

// Editions, by what they allow in 24 hours.
// Source: https://developer.salesforce.com/docs/platform/salesforce-app-limits-cheatsheet/guide/salesforce-app-limits-platform-api.html
const (
	// Developer has 15,000 calls.
	Developer Edition = iota + 1
	// Professional and Enterprise have 100,000 calls, and 1,000 more for each licence.
	Professional
	// Enterprise is like [Professional].
	Enterprise
	// Unlimited and Performance have 100,000 calls, and 5,000 more for each licence.
	Unlimited
	// Performance is like [Unlimited].
	Performance
	// Sandbox, a full one, has 5,000,000 calls.
	Sandbox
)

// buckets is how many buckets the 24 hours have: a full day becomes available again within 25 hours.
const buckets = 24

// Allocation returns how many calls an org of this edition has in 24 hours, with so many user licences. It returns 0, which no policy
// accepts, for an unknown edition, and for a number of licences that is negative or far too large. Add-ons come on top: see the org's own
// number under DailyApiRequests of /services/data/vXX.X/limits.
func Allocation(e Edition, licences int64) int64 {
	if licences < 0 || licences > specs.MaxLimit/5000-100_000 {
		return 0
	}
	switch e {
	case Developer:
		return 15_000
	case Professional, Enterprise:
		return 100_000 + 1_000*licences
	case Unlimited, Performance:
		return 100_000 + 5_000*licences
	case Sandbox:
		return 5_000_000
	}
	return 0
}

// Daily returns the policy of an org that has n calls in any 24 hours.
func Daily(n int64) policies.Policy {
	return policies.Sliding(n, 24*time.Hour).Buckets(buckets).Per(ScopeOrg).Named(PolicyDaily)
}

// Share returns a policy that allows the calls that carry a scope, batch work for example, so many per cent of an org's n calls in 24
// hours. The rest is kept for other calls. Upstreams report what is left of the whole org: pass it to the share, too, if the share must
// stop when others have spent the rest.
func Share(n, percent int64, scope string) policies.Policy {
	if percent < 1 || percent > 100 {
		n = 0
	}
	return policies.Sliding(n/100*percent+n%100*percent/100, 24*time.Hour).Buckets(buckets).Per(ScopeOrg, scope).Optional().Named(PolicyShare)
}

// long is how long a call has run when [Concurrent] begins to count it.
const long = 20 * time.Second

// Concurrent returns the policy of an org that admits no call while n calls are running that have lasted 20 seconds or longer: 25 in
// production orgs and sandboxes, 5 in orgs of the Developer edition and on trial. Any number of shorter calls may run.
// Source: https://developer.salesforce.com/docs/platform/salesforce-app-limits-cheatsheet/guide/salesforce-app-limits-platform-api.html
//
// Concurrent(5) is for an org on trial, whatever its edition, in place of the policy in [Limits].
func Concurrent(n int64) policies.Policy {
	return policies.InFlight(n).LongerThan(long).Per(ScopeOrg).Named(PolicyConcurrent)
}

// longCalls returns how many long calls an org of this edition may have running; 0 for an unknown edition.
func longCalls(e Edition) int64 {
	switch e {
	case Developer:
		return 5
	case Professional, Enterprise, Unlimited, Performance, Sandbox:
		return 25
	}
	return 0
}

// Limits returns the stack of an org of this edition, with so many user licences: [Daily] and [Concurrent].
func Limits(e Edition, licences int64) []policies.Policy {
	return []policies.Policy{Daily(Allocation(e, licences)), Concurrent(longCalls(e))}
}
