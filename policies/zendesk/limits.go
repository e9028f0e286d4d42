package zendesk

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policies. Names of endpoints are as in the Zendesk-RateLimit-… fields.
const (
	PolicyAccount            = "account"
	PolicyHelpCenter         = "help-center"
	PolicyTicketsIndex       = "tickets-index"
	PolicyTicketsIndexDeep   = "tickets-index-deep-pagination"
	PolicyTicketsUpdate      = "tickets-update"
	PolicyTicket             = "ticket"
	PolicyIncrementalExports = "incremental-exports"
	PolicyUsersUpdate        = "users-update" // per second, of an account
	PolicyUser               = "user"         // per minute, of one user: the field has the name create-update-user
	PolicySearchExport       = "search-export"
	PolicyView               = "view"
	PolicyOrganization       = "organization"
)

// Names of the scopes. Each policy has one, of the same name.
const (
	ScopeAccount            = PolicyAccount            // the host, for calls that are not to the Help Center
	ScopeHelpCenter         = PolicyHelpCenter         // the host
	ScopeTicketsIndex       = PolicyTicketsIndex       // the host
	ScopeTicketsIndexDeep   = PolicyTicketsIndexDeep   // the host, beyond page 500
	ScopeTicketsUpdate      = PolicyTicketsUpdate      // the host
	ScopeTicket             = PolicyTicket             // host, credential and ticket
	ScopeIncrementalExports = PolicyIncrementalExports // the host
	ScopeUsersUpdate        = PolicyUsersUpdate        // the host
	ScopeUser               = PolicyUser               // host and the user that is updated
	ScopeSearchExport       = PolicySearchExport       // the host
	ScopeView               = PolicyView               // host, credential and view
	ScopeOrganization       = PolicyOrganization       // host and organization
)

// A Plan is what an account has bought. Its value is how many calls per minute the account has.
//
// Source of all numbers of this file: https://developer.zendesk.com/api-reference/introduction/rate-limits/
type Plan int64

// Plans.
const (
	SuiteTeam           Plan = 200
	SuiteGrowth         Plan = 400
	SuiteProfessional   Plan = 400
	SuiteEnterprise     Plan = 700
	SuiteEnterprisePlus Plan = 2500
	SupportEssential    Plan = 10
	SupportTeam         Plan = 200
	SupportProfessional Plan = 400
	SupportEnterprise   Plan = 700
	// HighVolume is the add-on. It replaces the plan's number, and raises the limits of some endpoints. SuiteEnterprisePlus has the same
	// number built in, and is assumed to raise those limits, too, which Zendesk does not document. Replies have the real numbers.
	HighVolume Plan = 2500
)

const (
	// burst is how many calls may start at once. Zendesk documents no burst, so it is small on purpose.
	burst = 2
	// skew is how much closer together the network may bring calls.
	skew = 50 * time.Millisecond
)

// Account returns the policy of an account's calls per minute.
func Account(plan Plan) policies.Policy {
	return policies.AtMost(int64(plan), time.Minute).Burst(burst).Skew(skew).Per(ScopeAccount).Optional().Named(PolicyAccount)
}

// HelpCenter returns the policy of Help Center calls, which have the same number and are counted separately.
func HelpCenter(plan Plan) policies.Policy {
	return policies.AtMost(int64(plan), time.Minute).Burst(burst).Skew(skew).Per(ScopeHelpCenter).Optional().Named(PolicyHelpCenter)
}

// Endpoints returns the policies of the limited endpoints. They bind only the calls to those.
func Endpoints(plan Plan) []policies.Policy {
	high := func(usual, more int64) int64 {
		if plan >= HighVolume {
			return more
		}
		return usual
	}
	per := func(name string, n int64, period time.Duration) policies.Policy {
		return policies.AtMost(n, period).Burst(burst).Skew(skew).Per(name).Optional().Named(name)
	}
	return []policies.Policy{
		per(PolicyTicketsIndex, high(100, 300), time.Minute),
		per(PolicyTicketsIndexDeep, 50, time.Minute),
		per(PolicyTicketsUpdate, high(100, 300), time.Minute),
		// A few updates at once are usual.
		policies.Sliding(ticketUpdates, 10*time.Minute).Skew(skew).Per(ScopeTicket).Optional().Named(PolicyTicket),
		per(PolicyIncrementalExports, high(10, 30), time.Minute),
		policies.PerSecond(1).Per(ScopeUsersUpdate).Optional().Named(PolicyUsersUpdate),
		per(PolicyUser, 5, time.Minute),
		per(PolicySearchExport, 100, time.Minute),
		per(PolicyView, 5, time.Minute),
		per(PolicyOrganization, 5, time.Minute),
	}
}

// ticketUpdates is how often a user may update a ticket in 10 minutes.
const ticketUpdates = 30

// Limits returns the stack of an account with this plan.
func Limits(plan Plan) []policies.Policy {
	return append([]policies.Policy{Account(plan), HelpCenter(plan)}, Endpoints(plan)...)
}
