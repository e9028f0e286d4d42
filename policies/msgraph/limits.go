package msgraph

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policies and scopes. The value of a scope is a hash of the credential (for ScopeMailbox, of the mailbox), and only calls to
// that service carry it.
const (
	PolicyGlobal         = "global"
	PolicyTenant         = "tenant"
	PolicyIdentity       = "identity"
	PolicyIdentityWrites = "identity-writes"
	PolicyReports        = "reports"
	PolicySharePoint     = "sharepoint"
	PolicyMailbox        = "mailbox"

	ScopeTenant         = PolicyTenant         // every call
	ScopeIdentity       = PolicyIdentity       // users, groups, directory objects …
	ScopeIdentityWrites = PolicyIdentityWrites // of those, the calls that change something
	ScopeReports        = PolicyReports        // audit logs and sign-ins
	ScopeSharePoint     = PolicySharePoint     // sites, drives, and the hosts of SharePoint
	ScopeMailbox        = PolicyMailbox        // mail, calendars, contacts …: a hash of the mailbox
)

// A Size is the size of a tenant, by its users. Its value is how many resource units of identity an app has there in ten seconds.
//
// Source of all numbers of this file: https://learn.microsoft.com/graph/throttling-limits
type Size int64

// Sizes of tenants.
const (
	// Small is a tenant with under 50 users.
	Small Size = 3_500
	// Medium is a tenant with 50 to 500 users.
	Medium Size = 5_000
	// Large is a tenant with more than 500 users.
	Large Size = 8_000
)

// Limits returns the stack of an app whose tenants are of this size, or larger. All policies but [Mailbox] are sliding windows: a token
// bucket with the same quota admits all that they admit, and so does a window that begins anywhere.
func Limits(size Size) []policies.Policy {
	return []policies.Policy{
		Global(),
		Identity(size),
		policies.Sliding(3_000, 150*time.Second).Per(ScopeIdentityWrites).Optional().Named(PolicyIdentityWrites),
		policies.Sliding(5, 10*time.Second).Per(ScopeReports).Optional().Named(PolicyReports),
		Mailbox(),
	}
}

// Global returns the policy of all calls of an app, in all tenants and services: 130,000 calls in 10 seconds.
func Global() policies.Policy {
	return policies.Sliding(130_000, 10*time.Second).Named(PolicyGlobal)
}

// Identity returns the policy of the resource units that an app has in a tenant in 10 seconds, for calls to identity.
func Identity(size Size) policies.Policy {
	return policies.Sliding(int64(size), 10*time.Second).Per(ScopeIdentity).Optional().Named(PolicyIdentity)
}

// Mailbox returns the policy of the calls that an app may have running in one mailbox of Outlook, a user's or a group's: 4 at once. It
// holds a permit for each of them.
// Source: https://learn.microsoft.com/graph/throttling-limits#outlook-service-limits
func Mailbox() policies.Policy {
	return policies.InFlight(4).Per(ScopeTenant, ScopeMailbox).Optional().Named(PolicyMailbox)
}

// SharePoint returns a policy of n calls a minute to sites, drives and SharePoint itself, for each tenant. It follows what SharePoint
// reports as left. The number depends on the tenant's licences and on what the calls cost in resource units:
// https://learn.microsoft.com/sharepoint/dev/general-development/how-to-avoid-getting-throttled-or-blocked-in-sharepoint-online
func SharePoint(n int64) policies.Policy {
	return policies.Sliding(n, time.Minute).Per(ScopeSharePoint).Optional().Named(PolicySharePoint)
}

// Tenant returns a policy of n calls per period in each tenant. Graph has no such limit in general: it is a budget of yours. With it in the
// stack, a refusal by a service that is not known here pauses one tenant; without it, all tenants. A refusal by Outlook pauses the tenant
// in addition to the mailbox.
func Tenant(n int64, period time.Duration) policies.Policy {
	return policies.Sliding(n, period).Per(ScopeTenant).Optional().Named(PolicyTenant)
}
