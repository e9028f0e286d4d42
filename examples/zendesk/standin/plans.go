package standin

import (
	"maps"
	"slices"
)

// highVolume is the account limit of the plans whose endpoint limits are higher, too.
const highVolume = 2500

// plans holds the calls per minute of an account.
// Source: https://developer.zendesk.com/api-reference/introduction/rate-limits/#support-and-help-center-api-request-rate-limits
//
//nolint:gochecknoglobals // a table
var plans = map[string]int{
	"team":            200,
	"growth":          400,
	"professional":    400,
	"enterprise":      700,
	"enterprise-plus": highVolume,
}

// PlanLimit returns how many calls an account on this plan may make per minute; false means that there is no such plan.
func PlanLimit(plan string) (int, bool) {
	n, ok := plans[plan]
	return n, ok
}

// Plans returns the names of the plans, smallest limit first.
func Plans() []string {
	return slices.SortedFunc(maps.Keys(plans), func(a, b string) int {
		if d := plans[a] - plans[b]; d != 0 {
			return d
		}
		if a < b {
			return -1
		}
		return 1
	})
}

// peakAllowance is by how many calls a second may exceed the even pace.
const peakAllowance = 2

// Peak returns the spike guard of an account that may make limit calls per minute: the even pace of limit/60 calls per second, rounded up,
// and two more.
//
// Zendesk documents no limit per second below the whole service's. The guard is the stand-in's own, so that a run of some seconds can
// distinguish a paced client from one that spends its minute at once. It has a reason: clients were refused at some five calls per second
// while most of their minute remained (https://support.zendesk.com/hc/en-us/community/posts/4588596383514).
func Peak(limit int) int {
	return (limit+59)/60 + peakAllowance
}
