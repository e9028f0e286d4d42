package standin

import "time"

// StatsPath is where a stand-in serves its [Stats], as JSON and without credentials.
const StatsPath = "/_standin/stats"

// maxSeconds is how many seconds have a count of their own: a day's. The totals go on.
const maxSeconds = 24 * 60 * 60

// Stats is what a stand-in has recorded.
//
//nolint:tagliatelle // written like Zendesk's names
type Stats struct {
	Plan           string               `json:"plan"`
	LimitPerMinute int                  `json:"limit_per_minute"`
	PeakPerSecond  int                  `json:"peak_per_second"` // 0: no spike guard
	UptimeMS       int64                `json:"uptime_ms"`       // since the stand-in began
	IdleMS         int64                `json:"idle_ms"`         // since the last request came, one for the stats included, or since it began
	Tenants        map[string]TenantRow `json:"tenants"`
}

// TenantRow is the record of one account. Second 0 is when the stand-in began.
//
//nolint:tagliatelle // written like Zendesk's names
type TenantRow struct {
	Admitted          int            `json:"admitted"`
	Refused           int            `json:"refused"`    // answered with a 429
	RefusedBy         map[string]int `json:"refused_by"` // by the limit that had no room: see the package's documentation
	AdmittedPerSecond []int          `json:"admitted_per_second"`
	RefusedPerSecond  []int          `json:"refused_per_second"`
}

// record counts the calls of an account.
type record struct {
	admitted, refused int
	refusedBy         map[string]int
	admittedAt        []int // by second
	refusedAt         []int
}

// count records a call, by its time since the stand-in's beginning; an empty limit means that it was admitted.
func (r *record) count(at time.Duration, limit string) {
	if limit == "" {
		r.admitted++
	} else {
		r.refused++
		r.refusedBy[limit]++
	}
	second := int(at / time.Second)
	if second >= maxSeconds {
		return
	}
	if n := second + 1 - len(r.admittedAt); n > 0 {
		r.admittedAt = append(r.admittedAt, make([]int, n)...)
		r.refusedAt = append(r.refusedAt, make([]int, n)...)
	}
	if limit == "" {
		r.admittedAt[second]++
	} else {
		r.refusedAt[second]++
	}
}
