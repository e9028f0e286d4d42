package hubspot

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policies and of the scope.
const (
	PolicyTenSeconds = "ten-seconds"
	PolicyDaily      = "daily"
	// LimitSecond is the limit per second. No policy has this name: only the refused call waits.
	LimitSecond = "second"

	ScopeApp = "app" // hash of the credential
)

// A Tier is what an account has bought, for private apps.
type Tier int

// Tiers. Source of all numbers of this file:
// https://developers.hubspot.com/docs/developer-tooling/platform/usage-guidelines
const (
	Starter      Tier = iota + 1 // also free accounts: 100 in ten seconds, 250,000 a day
	Professional                 // 190 in ten seconds, 625,000 a day
	Enterprise                   // 190 in ten seconds, 1,000,000 a day
	Increased                    // with one limit increase: 250 in ten seconds, 1,000,000 a day more than Enterprise
)

// Limits returns the stack of a private app, in an account whose time zone is loc.
func Limits(tier Tier, loc *time.Location) []policies.Policy {
	var n, day int64
	switch tier {
	case Starter:
		n, day = 100, 250_000
	case Professional:
		n, day = 190, 625_000
	case Enterprise:
		n, day = 190, 1_000_000
	case Increased:
		n, day = 250, 2_000_000
	}
	return []policies.Policy{
		policies.Sliding(n, 10*time.Second).Per(ScopeApp).Named(PolicyTenSeconds),
		policies.Daily(day, loc).Per(ScopeApp).Named(PolicyDaily),
	}
}
