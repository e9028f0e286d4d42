package main

import (
	"slices"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/salesforce"
)

// Names of this program's own policies, and of their scopes.
const (
	policyPeak      = "peak"
	policyPeakShare = "peak-share"
	policyTenant    = "tenant"

	scopeBatch  = "batch"   // carried only by the readers' calls
	readers     = "readers" // its value
	scopeTenant = "tenant"  // whose data a reader reads
)

// The program's own limits. Salesforce documents no limit per second; these keep a bulk read from crowding out people who use the org, and
// one tenant from crowding out the others.
const (
	peakRate   = 20 // calls per second
	peakGuard  = 25 // what the stand-in refuses more than: copies on a busy machine do not bring their calls as evenly as they were paced
	tenantRate = 5  // calls per second that read the data of one tenant
)

// skew is how much closer together calls may arrive than they were sent.
const skew = 50 * time.Millisecond

// share returns the readers' part of a limit.
func share(limit int64, reserve int) int64 { return limit * int64(100-reserve) / 100 }

// profileOf returns Salesforce's profile, in which the org's reported use counts for the readers' share, too.
func profileOf(reserve int) policies.Profile {
	p := salesforce.Profile
	p.Read = func(r *policies.Reply) policies.Reading {
		reading := salesforce.Profile.Read(r)
		for _, f := range reading.Feedback {
			used, reported := f.Used.Value()
			limit, limited := f.Limit.Value()
			if reported && limited && slices.Contains(f.Policies, salesforce.PolicyDaily) {
				reading.Feedback = append(reading.Feedback, readersUsage(used, limit, reserve))
			}
		}
		return reading
	}
	return p
}

// readersUsage returns how much of the readers' part of the day is used, by all consumers of the allocation. So the readers stop when the
// whole org has come so far, which keeps the reserve. Calls without their scope are not affected.
func readersUsage(used, limit int64, reserve int) policies.Feedback {
	return policies.Feedback{
		Source:    "share of Sforce-Limit-Info",
		Policies:  []string{salesforce.PolicyShare},
		Otherwise: policies.TheCall,
		Limit:     policies.Reported(share(limit, reserve)),
		Window:    24 * time.Hour,
		Used:      policies.Reported(used),
	}
}

// usageBefore returns the use of the day before the program began.
func usageBefore(u *upstream, reserve int) []policies.Feedback {
	used, limit := int64(u.used), int64(u.allocation)
	return []policies.Feedback{
		{Source: "limits", Policies: []string{salesforce.PolicyDaily}, Limit: policies.Reported(limit), Window: 24 * time.Hour, Used: policies.Reported(used)},
		readersUsage(used, limit, reserve),
	}
}

// readersScopes are the scopes of a reader's call, except the tenant.
func readersScopes(u *upstream) []pacer.ScopeOption {
	return []pacer.ScopeOption{pacer.Scope(salesforce.ScopeOrg, u.host), pacer.Scope(scopeBatch, readers)}
}
