package shares

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headway-go/headway/policies"
)

// A Kind is a kind of limit.
type Kind string

// Kinds of limits.
const (
	Rate     Kind = "rate"
	Exact    Kind = "exact"
	Sliding  Kind = "sliding"
	Fixed    Kind = "fixed"
	Calendar Kind = "calendar"
	Permits  Kind = "permits"
)

// Kinds are all of them.
var Kinds = []Kind{Rate, Exact, Sliding, Fixed, Calendar, Permits} //nolint:gochecknoglobals // a constant

// A Mix is some flows of calls that share one limit: up to three parties that have floors, and one to five tenants in no party.
type Mix struct {
	Kind  Kind
	Flows []*Flow

	seed      uint64
	floors    []float64 // by party: first what is not reserved
	perSecond float64   // units, or of permits their number
	burst     float64
	lasts     time.Duration
	interval  time.Duration // of the comparison
	beside    bool          // another limit binds all calls, too
}

// A Flow is the calls of a tenant.
type Flow struct {
	party  int // 0: none
	weight int64
	bias   float64 // estimates are so many times the cost; 0 if costs are known
	greedy bool    // it takes all that it gets
	comes  [][2]time.Duration
	open   []call // of a flow that does not
	cost   func(*rand.Rand) int64
	takes  time.Duration // on average
}

type call struct {
	at    time.Duration
	cost  int64
	takes time.Duration
}

// calls reports whether the flow calls at some time from one instant until another.
func (f *Flow) calls(from, to time.Duration) bool {
	return slices.ContainsFunc(f.comes, func(c [2]time.Duration) bool { return c[0] < to && from < c[1] })
}

// maxCost is the highest cost of a call, and maxEstimate its highest estimate.
const (
	maxCost     = 100
	maxEstimate = 150
)

// costs returns what the calls of a flow cost: about the same, or a hundredfold. A window that is exact has room for few.
func costs(r *rand.Rand, kind Kind) func(*rand.Rand) int64 {
	mean := []float64{10, 20, 50}[r.IntN(3)]
	if kind == Exact {
		mean /= 4
	} else if r.Float64() < 0.3 {
		return func(r *rand.Rand) int64 { return int64(math.Round(math.Pow(maxCost, r.Float64()))) }
	}
	return func(r *rand.Rand) int64 { return int64(math.Round(mean * (0.5 + r.Float64()))) }
}

// New returns the mix of a seed; with estimates, calls cost other than they are charged at first.
func New(kind Kind, seed uint64, estimates bool) *Mix {
	r := rand.New(rand.NewPCG(seed, uint64(slices.Index(Kinds, kind)))) //nolint:gosec // not negative
	m := &Mix{Kind: kind, seed: seed, interval: 10 * time.Second, lasts: 60 * time.Second, beside: r.IntN(2) == 0}
	switch kind {
	case Rate:
		m.perSecond, m.burst = 1000, 200
	case Exact:
		m.perSecond, m.burst, m.interval = 250, 100, 20*time.Second
	case Sliding:
		m.perSecond, m.lasts = 480, 80*time.Second
	case Fixed:
		m.perSecond, m.lasts, m.interval = 160, 300*time.Second, 30*time.Second
	case Calendar:
		m.perSecond, m.lasts, m.interval = 4800.0/3600, 5*time.Hour, time.Hour
	case Permits:
		m.perSecond = 20
	}
	n := 2 + r.IntN(5)
	parties, left := 1+r.IntN(min(3, n-1)), 90
	m.floors = make([]float64, parties+1)
	for i := range n {
		f := &Flow{weight: 1, takes: []time.Duration{time.Second / 5, time.Second / 2, time.Second}[r.IntN(3)], cost: costs(r, kind)}
		if i < parties {
			f.party = i + 1
			most := min(40, left-10*(parties-i-1)) / 10
			floor := 10 * (1 + r.IntN(most))
			m.floors[f.party], left = float64(floor)/100, left-floor
		} else {
			f.weight = []int64{1, 1, 2, 3, 5}[r.IntN(5)]
		}
		m.Flows = append(m.Flows, f)
	}
	m.floors[0] = 1
	for _, floor := range m.floors[1:] {
		m.floors[0] -= floor
	}
	always := r.IntN(n)
	calm := (kind == Sliding || kind == Fixed || kind == Calendar) && r.Float64() < 0.3
	for i, f := range m.Flows {
		if estimates && kind != Permits {
			f.bias = []float64{0.5, 1, 2, 4}[r.IntN(4)]
			if kind != Rate && kind != Exact { // estimates that are too low overrun a window, in whatever shares
				f.bias = max(1, f.bias)
			}
		}
		m.fill(r, f, i == always, calm)
	}
	return m
}

// fill gives a flow its calls.
func (m *Mix) fill(r *rand.Rand, f *Flow, always, calm bool) {
	between := func(a, b time.Duration) time.Duration { return a + time.Duration(r.Int64N(int64(b-a))) }
	f.comes = [][2]time.Duration{{0, m.lasts}}
	if r.Float64() >= 0.4 && !always && !calm {
		f.comes = nil
		for t := between(0, m.lasts/4); t < m.lasts; {
			end := min(m.lasts, t+between(m.lasts/12, m.lasts/3))
			f.comes = append(f.comes, [2]time.Duration{t, end})
			t = end + between(m.lasts/12, m.lasts/4)
		}
	}
	switch what := r.Float64(); {
	case !always && what < 0.1:
		f.comes = nil // it never calls
		return
	case always || what < 0.55:
		f.greedy = true
		return
	}
	load, mean := []float64{.05, .1, .2, .4}[r.IntN(4)]*m.perSecond, 0.0
	for range 400 {
		mean += float64(f.cost(r)) / 400
	}
	if m.Kind == Permits {
		mean = f.takes.Seconds()
	}
	for _, c := range f.comes {
		for t := c[0]; ; {
			if t += time.Duration(r.ExpFloat64() * mean / load * float64(time.Second)); t >= c[1] {
				break
			}
			f.open = append(f.open, call{t, f.cost(r), f.lasts(r)})
		}
	}
}

// lasts returns how long a call takes.
func (f *Flow) lasts(r *rand.Rand) time.Duration {
	return max(20*time.Millisecond, time.Duration(r.ExpFloat64()*float64(f.takes)))
}

// estimate returns what a call is charged at first.
func (f *Flow) estimate(r *rand.Rand, cost int64) int64 {
	if f.bias == 0 {
		return cost
	}
	most := int64(maxEstimate)
	return max(1, min(most, int64(math.Round(float64(cost)*f.bias*(0.7+0.6*r.Float64())))))
}

// shared is the name of the policy that all share.
const shared = "shared"

// Policies returns those of the mix.
func (m *Mix) Policies() []policies.Policy {
	n := int64(m.perSecond)
	var p policies.Policy
	switch m.Kind {
	case Rate:
		p = policies.PerSecond(n).Burst(int64(m.burst))
	case Exact:
		p = policies.AtMost(n, time.Second).Burst(int64(m.burst)).Skew(0)
	case Sliding:
		p = policies.Sliding(10*n, 10*time.Second)
	case Fixed:
		p = policies.Fixed(30*n, 30*time.Second)
	case Calendar:
		p = policies.Hourly(4800, time.UTC)
	case Permits:
		p = policies.InFlight(n)
	}
	p = p.Named(shared)
	for i, floor := range m.floors[1:] {
		p = p.Reserve(partyName(i+1), int64(math.Round(100*floor)))
	}
	all := []policies.Policy{p}
	if m.beside {
		all = append(all, policies.PerSecond(2000).Burst(100).Named("beside"))
	}
	return all
}

func partyName(i int) string {
	if i == 0 {
		return ""
	}
	return fmt.Sprint("party-", i)
}
