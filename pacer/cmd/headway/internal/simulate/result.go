package simulate

import (
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A Result is the outcome of a plan. Times are in seconds, instants since Start.
type Result struct {
	Start time.Time `json:"start"`
	For   float64   `json:"forSeconds"`
	Seed  uint64    `json:"seed"`

	Offered  int64 `json:"offered"` // calls that were made
	Admitted int64 `json:"admitted"`
	Refused  int64 `json:"refused"` // because they would have waited longer than MaxWait
	Waiting  int64 `json:"waiting"` // at the end

	Goodput  float64        `json:"goodput"` // admitted calls per second
	Waits    Waits          `json:"waits"`   // of the admitted calls
	Queue    Queue          `json:"queue"`
	Policies []PolicyResult `json:"policies"`
	Loads    []LoadResult   `json:"loads"`
	Chart    Chart          `json:"chart"`
}

// A Queue is the number of waiting calls, each from its caller's request until it goes.
type Queue struct {
	Mean float64 `json:"mean"`
	Max  int64   `json:"max"`
}

// A PolicyResult is the outcome of a policy, or of a lane's part of one.
type PolicyResult struct {
	Policy string `json:"policy"`
	Text   string `json:"text"`
	Limits int    `json:"limits"` // how many values of its scopes there are; 1 without scopes
	// Utilization is the used part of all limits of the policy in this time: the cost of the admitted calls, or the time in which permits
	// were taken. Each window of the clock and of calendars admits its whole limit, however much of the first and the last is simulated.
	Utilization float64 `json:"utilization"`
	Busiest     float64 `json:"busiest"` // of the limit that was used most
	Waits       Waits   `json:"waits"`   // of the calls that this policy delayed
	Refused     int64   `json:"refused"` // because of it
	Spent       *Spent  `json:"spent,omitempty"`
}

// Spent is when a window or a calendar had nothing left: a call found that it must wait for more, or is refused.
type Spent struct {
	At    float64 `json:"atSeconds"`    // the first time
	Until float64 `json:"untilSeconds"` // when that call could go, after the first time
	Times int     `json:"times"`        // how often that happened, all limits together
	For   float64 `json:"forSeconds"`   // for how long, all limits together, as far as a call found it
}

// A LoadResult is the outcome of a load, or of a part of it, if a tenant is greedy or some calls are in a lane.
type LoadResult struct {
	Name     string  `json:"name"`
	Offered  int64   `json:"offered"`
	Admitted int64   `json:"admitted"`
	Refused  int64   `json:"refused"`
	Goodput  float64 `json:"goodput"`
	Waits    Waits   `json:"waits"`
}

// A Chart has a value for each Every seconds; the last may be of less time.
type Chart struct {
	Every    float64   `json:"everySeconds"`
	Offered  []float64 `json:"offered"`  // calls per second
	Admitted []float64 `json:"admitted"` // calls per second
	Waiting  []float64 `json:"waiting"`  // calls, on average
	// Remaining is what is left of each window at the end of each interval, by the policy's name, for the first tenant. It omits windows
	// that are shorter than Every. Granted slots are not left.
	Remaining map[string][]int64 `json:"remaining,omitempty"`
}

// sample records what is left of windows at the end of each interval of the charts.
func (s *sim) sample() {
	for i, p := range s.parts {
		_, period := p.Limit()
		if p.Spec().Algorithm != specs.Window || Duration(period).micros() < s.every || s.binder.first[i] == nil {
			continue // a shorter one is full again before it is looked at
		}
		stack := store.Stack{Upstream: upstream, Limits: []store.Limit{*s.binder.first[i]}}
		for n := range s.points {
			s.at(min(s.end, s.begun+store.Instant(n+1)*s.every)-1, func() {
				status, err := s.store.Status(s.ctx, stack)
				if err != nil {
					s.err = err
					return
				}
				p.left = append(p.left, status.Limits[0].Remaining)
			})
		}
	}
}

// result returns what was counted.
func (s *sim) result(start time.Time) *Result {
	s.waiting(0, s.end)
	length := seconds(s.end - s.begun)
	t := &s.total
	r := &Result{
		Start: start, For: length, Seed: s.plan.Seed, Offered: t.offered, Admitted: t.admitted, Refused: t.refused, Waiting: s.line,
		Goodput: float64(t.admitted) / length, Waits: t.waits.result(),
		Queue: Queue{Mean: s.area / float64(s.end-s.begun), Max: s.longest},
		Chart: Chart{Every: seconds(s.every), Remaining: make(map[string][]int64)},
	}
	for _, g := range s.groups {
		r.Loads = append(r.Loads, LoadResult{
			Name: g.name, Offered: g.offered, Admitted: g.admitted, Refused: g.refused, Goodput: float64(g.admitted) / length, Waits: g.waits.result(),
		})
	}
	for i, p := range s.parts {
		r.Policies = append(r.Policies, s.policy(p, s.binder.count[i]))
		if p.left != nil {
			r.Chart.Remaining[p.Name()] = p.left
		}
	}
	for i, p := range s.points {
		width := min(s.every, s.end-s.begun-store.Instant(i)*s.every)
		r.Chart.Offered = append(r.Chart.Offered, float64(p.offered)/seconds(width))
		r.Chart.Admitted = append(r.Chart.Admitted, float64(p.admitted)/seconds(width))
		r.Chart.Waiting = append(r.Chart.Waiting, p.area/float64(width))
	}
	return r
}

// policy returns the counts of a policy with so many limits.
func (s *sim) policy(p *partCount, limits int) PolicyResult {
	r := PolicyResult{Policy: p.Name(), Text: p.String(), Limits: limits, Waits: p.waits.result(), Refused: p.refused}
	all := capacity(&p.Policy, s.begun, s.end)
	total, most := 0.0, 0.0
	for _, used := range p.used {
		total, most = total+used, max(most, used)
	}
	r.Utilization, r.Busiest = total/all/float64(max(1, limits)), most/all
	if p.first != 0 {
		r.Spent = &Spent{At: seconds(p.first - s.begun), Until: seconds(p.again - s.begun), Times: p.spells, For: seconds(p.empty)}
	}
	return r
}
