package standin

import "time"

// StatsPath is where a stand-in serves its [Stats], as JSON and without a token.
const StatsPath = "/_standin/stats"

// maxSeconds is how many seconds have a count of their own: a day's. The totals go on.
const maxSeconds = 24 * 60 * 60

// Stats is what a stand-in has recorded.
//
//nolint:tagliatelle // as the other stand-ins name theirs
type Stats struct {
	Org           string                 `json:"org"`
	Allocation    int                    `json:"allocation"`
	Used          int                    `json:"used"`            // of the allocation, in the last 24 hours
	PeakPerSecond int                    `json:"peak_per_second"` // 0: no spike guard
	UptimeMS      int64                  `json:"uptime_ms"`       // since the stand-in began
	IdleMS        int64                  `json:"idle_ms"`         // since the last request came, one for the stats included, or since it began
	Consumers     map[string]ConsumerRow `json:"consumers"`
}

// ConsumerRow is the record of one consumer. Second 0 is when the stand-in began.
//
//nolint:tagliatelle // as above
type ConsumerRow struct {
	Admitted          int            `json:"admitted"`
	Refused           int            `json:"refused"`    // answered with a 403 because of a limit
	RefusedBy         map[string]int `json:"refused_by"` // by the limit that had no room: see the package's documentation
	AdmittedPerSecond []int          `json:"admitted_per_second"`
	RefusedPerSecond  []int          `json:"refused_per_second"`
}

// record counts the calls of a consumer.
type record struct {
	admitted, refused int
	refusedBy         map[string]int
	admittedAt        []int // by second
	refusedAt         []int
}

// count records a call, by its time since the stand-in's beginning; an empty limit means that it was admitted.
func (r *record) count(at time.Duration, broken string) {
	second := int(at / time.Second)
	if n := second + 1 - len(r.admittedAt); n > 0 && second < maxSeconds {
		r.admittedAt = append(r.admittedAt, make([]int, n)...)
		r.refusedAt = append(r.refusedAt, make([]int, n)...)
	}
	bySecond := r.admittedAt
	if broken == "" {
		r.admitted++
	} else {
		r.refused++
		r.refusedBy[broken]++
		bySecond = r.refusedAt
	}
	if second < len(bySecond) {
		bySecond[second]++
	}
}
