package ietf

import (
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// UnitInFlight is the [Quota].Unit of a limit on requests that run at once, as the draft registers it.
const UnitInFlight = "concurrent-requests"

// Bounds of the fields.
const (
	// maxInteger is the largest Integer of a structured field: RFC 9651 section 3.3.1.
	maxInteger = 999_999_999_999_999
	// maxPeriods is over how many periods of a policy a window is written at most: in a thousand, a period of whole milliseconds comes to
	// whole seconds.
	maxPeriods = 1000
)

// A Quota is what a server reports to its clients about one of its limits.
type Quota struct {
	// Name is the name of the limit. Clients see it.
	Name string
	// Limit is how much the limit allows: in each Window, or at once if there is no Window.
	Limit int64
	// Window is the period for which Limit holds, in whole seconds; 0 leaves it out.
	Window time.Duration
	// Unit is what is counted; "" for requests.
	Unit string
	// Remaining is how much is left.
	Remaining int64
	// Reset is how long until there is more; 0 leaves it out. It is rounded up to whole seconds.
	Reset time.Duration

	_ struct{}
}

// QuotaOf returns the quota of a policy with so much left, which has more after reset; a reset of 0 means that this is not known.
//
// The fields have whole seconds, and no bursts. So the window of a policy is as many of its periods as come to whole seconds and hold its
// burst: PerSecond(10) is 10 in 1 s, Every(1500 * time.Millisecond) is 2 in 3 s, and PerSecond(1).Burst(5) is 5 in 5 s. If no number of
// periods up to a thousand does, Window is 0. The part of a lane is a quota of its own: see [policies.Policy.InLane]. An in-flight policy
// has the unit [UnitInFlight], no window and no reset: nobody knows when a request will be over.
func QuotaOf(p policies.Policy, remaining int64, reset time.Duration) Quota {
	spec := p.Spec()
	q := Quota{Name: p.Name(), Limit: spec.Limit, Remaining: remaining, Reset: reset}
	if spec.Algorithm == specs.Concurrency {
		q.Unit, q.Reset = UnitInFlight, 0
		return q
	}
	limit, period := p.Limit()
	if spec.Algorithm == specs.GCRA { // it is less for the part of a lane, and for a burst that costs some of the rate
		limit = min(limit, max(1, (period.Microseconds()+spec.Interval/2)/spec.Interval))
	} else {
		limit = spec.Limit
	}
	for k := (spec.Limit + limit - 1) / limit; k <= maxPeriods && period <= specs.MaxPeriod/time.Duration(k); k++ {
		if window := time.Duration(k) * period; window%time.Second == 0 {
			q.Limit, q.Window = k*limit, window
			break
		}
	}
	return q
}

// Write adds the fields RateLimit-Policy and RateLimit to a reply, as of draft-ietf-httpapi-ratelimit-headers-08, with one item for each
// quota. It writes what the [Profile] reads. Of more than 32 quotas it writes the first 32, because the Profile reads no more.
//
//	RateLimit-Policy: "peak";q=10;w=1, "running";q=20;qu="concurrent-requests"
//	RateLimit: "peak";r=3;t=1, "running";r=17
//
// A quota whose name cannot be a string of a structured field, because it is not ASCII, is left out.
func Write(h http.Header, quotas ...Quota) {
	var allowed, left httpsfv.List
	for i := range quotas {
		q := &quotas[i]
		if len(allowed) == maxItems {
			break
		}
		policy, limit := httpsfv.NewItem(q.Name), httpsfv.NewItem(q.Name)
		policy.Params.Add("q", clamp(q.Limit))
		if q.Unit != "" {
			policy.Params.Add("qu", q.Unit)
		}
		if w := wholeSeconds(q.Window); w > 0 {
			policy.Params.Add("w", w)
		}
		limit.Params.Add("r", clamp(q.Remaining))
		if t := wholeSeconds(q.Reset); t > 0 {
			limit.Params.Add("t", t)
		}
		if _, err := httpsfv.Marshal(policy); err != nil {
			continue
		}
		allowed, left = append(allowed, policy), append(left, limit)
	}
	add(h, "RateLimit-Policy", allowed)
	add(h, "RateLimit", left)
}

// add adds a list to a reply, unless it is empty.
func add(h http.Header, name string, list httpsfv.List) {
	if v, err := httpsfv.Marshal(list); err == nil && len(list) > 0 {
		h.Add(name, v)
	}
}

// clamp returns the number closest to n that is not negative and that a structured field can have.
func clamp(n int64) int64 { return max(0, min(n, maxInteger)) }

// wholeSeconds returns a duration in seconds, rounded up.
func wholeSeconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return clamp(n)
}
