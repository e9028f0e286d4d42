package server

import (
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// A view is a fleet as browsers and scripts get it. Durations are in seconds.
type view struct {
	Upstream  string        `json:"upstream"`
	At        time.Time     `json:"at"`
	Counted   time.Time     `json:"counted"`
	Shared    bool          `json:"shared"`
	PausedFor float64       `json:"pausedFor"`
	Binding   string        `json:"binding"` // the policy that most calls wait for; "" if none wait
	Waiting   int64         `json:"waiting"` // calls that sleep because the whole upstream is paused
	Alive     int           `json:"alive"`
	Policies  []policyView  `json:"policies"`
	Processes []processView `json:"processes"`
	Busiest   []busyView    `json:"busiest"`
	Unknown   []string      `json:"unknown"` // what processes say of policies that this version cannot read
}

// A standing is how a policy stands for one key.
type standing struct {
	Remaining int64   `json:"remaining"`
	Limit     int64   `json:"limit"` // what Remaining is at most, as things are
	Next      float64 `json:"next"`
	Backlog   int64   `json:"backlog"`
	PausedFor float64 `json:"pausedFor"`
	Line      int64   `json:"line"`
}

type policyView struct {
	standing

	Name        string   `json:"name"`
	Text        string   `json:"text"`
	Kind        string   `json:"kind"`   // "rate", "window" or "in flight"
	Period      float64  `json:"period"` // nominal, of a rate or a window; 0 for places in flight
	Scopes      []string `json:"scopes"`
	Shown       bool     `json:"shown"` // the standing is known
	Waiting     int64    `json:"waiting"`
	Rate        float64  `json:"rate"`     // cost per second, of the last ten
	Capacity    float64  `json:"capacity"` // cost per second in the long run; 0 for places in flight
	Utilization float64  `json:"utilization"`

	// By second, the oldest first; the last one ends at Counted.
	Cost   []int64   `json:"cost"`
	Waits  []int64   `json:"waits"`
	Waited []float64 `json:"waited"`
}

type processView struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	For     float64 `json:"for"`
	Waiting int64   `json:"waiting"`
}

type busyView struct {
	standing

	Policy  string            `json:"policy"`
	Scope   string            `json:"scope"`            // as errors have it
	Values  map[string]string `json:"values,omitempty"` // by scope, if they can be had back from it
	Cost    int64             `json:"cost"`
	Waiting int64             `json:"waiting"`
}

// rateSeconds is over how many seconds a rate is taken.
const rateSeconds = 10

// viewOf returns the view of a fleet. Lists are never null.
func viewOf(f *pacer.Fleet) *view {
	v := &view{
		Upstream: f.Upstream, At: f.At.UTC(), Counted: f.Counted.UTC(), Shared: f.Shared, PausedFor: f.PausedFor.Seconds(),
		Waiting: f.Waiting, Alive: f.Alive,
		Policies: make([]policyView, len(f.Policies)), Processes: make([]processView, len(f.Processes)),
		Busiest: make([]busyView, len(f.Busiest)), Unknown: append([]string{}, f.Unknown...),
	}
	if b := f.Binding(); b != nil {
		v.Binding = b.Policy.Name()
	}
	for i := range f.Policies {
		v.Policies[i] = policyViewOf(&f.Policies[i])
	}
	for i, p := range f.Processes {
		v.Processes[i] = processView{p.ID, p.Name, p.For.Seconds(), p.Waiting}
	}
	for i := range f.Busiest {
		b := &f.Busiest[i]
		v.Busiest[i] = busyView{
			standing: standingOf(&b.PolicyStatus), Policy: b.Policy.Name(),
			Scope: b.Scope, Values: valuesOf(b.Policy.Scopes(), b.Scope), Cost: b.Cost, Waiting: b.Waiting,
		}
	}
	return v
}

func policyViewOf(p *pacer.FleetPolicy) policyView {
	_, period := p.Policy.Limit()
	v := policyView{
		Name: p.Policy.Name(), Text: p.Policy.String(), Kind: kindOf(p.Policy), Period: period.Seconds(), Scopes: p.Policy.Scopes(),
		Shown: p.Shown, Waiting: p.Waiting,
		Rate: p.Rate(rateSeconds), Capacity: p.Capacity(), Utilization: p.Utilization(),
		Cost: make([]int64, len(p.History)), Waits: make([]int64, len(p.History)), Waited: make([]float64, len(p.History)),
	}
	if v.Scopes == nil {
		v.Scopes = []string{}
	}
	if p.Shown {
		v.standing = standingOf(&p.PolicyStatus)
	}
	for i, s := range p.History {
		v.Cost[i], v.Waits[i], v.Waited[i] = s.Cost, s.Waits, s.Waited.Seconds()
	}
	return v
}

func standingOf(s *pacer.PolicyStatus) standing {
	spec := s.Policy.Spec()
	limit := spec.Limit
	if spec.Algorithm != policies.GCRA && s.Pace > 0 { // of a rate, Pace is an interval
		limit = s.Pace
	}
	return standing{s.Remaining, limit, s.Next.Seconds(), s.Backlog, s.PausedFor.Seconds(), s.Line}
}

func kindOf(p policies.Policy) string {
	switch p.Spec().Algorithm {
	case policies.Window:
		return "window"
	case policies.Leases:
		return "in flight"
	case policies.GCRA:
	}
	return "rate"
}
