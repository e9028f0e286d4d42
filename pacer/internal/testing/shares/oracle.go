package shares

import (
	"math"
	"time"
)

// endless is the demand of a flow that takes all that it gets.
const endless = 1e12

// fill divides what there is by max-min: a party that wants less than its part by weight leaves the rest to the others.
func fill(room float64, demand, weight []float64) []float64 {
	got := make([]float64, len(demand))
	open := make(map[int]bool)
	for i, d := range demand {
		if d > 0 {
			open[i] = true
		}
	}
	for len(open) > 0 && room > 1e-9 {
		sum := 0.0
		for i := range open {
			sum += weight[i]
		}
		level, full := room/sum, false
		for i := range open {
			if demand[i] <= weight[i]*level {
				got[i], full = demand[i], true
				room -= demand[i]
				delete(open, i)
			}
		}
		if !full {
			for i := range open {
				got[i] = weight[i] * level
			}
			return got
		}
	}
	return got
}

// divide divides what there is over the parties by their floors, and what each has over its tenants.
func (m *Mix) divide(room float64, demand []float64) []float64 {
	byParty, weights := make([]float64, len(m.floors)), make([]float64, len(m.floors))
	for i, f := range m.Flows {
		byParty[f.party] += demand[i]
	}
	for i, floor := range m.floors {
		weights[i] = max(floor, 1e-3)
	}
	got := make([]float64, len(m.Flows))
	for party, part := range fill(room, byParty, weights) {
		var of []int
		var wants, by []float64
		for i, f := range m.Flows {
			if f.party == party {
				of, wants, by = append(of, i), append(wants, demand[i]), append(by, float64(f.weight))
			}
		}
		for k, x := range fill(part, wants, by) {
			got[of[k]] = x
		}
	}
	return got
}

// due returns what each flow should get in each interval. Of a rate, gave is how much that gave in each second, which estimates that are too
// high make less.
func (m *Mix) due(gave []float64) [][]float64 {
	switch m.Kind {
	case Sliding, Fixed, Calendar:
		return m.dueOfWindows()
	case Permits:
		return m.dueOfPermits()
	case Rate, Exact:
	}
	return m.dueOfRate(gave)
}

// instant is how finely the oracle divides time.
const instant = 50 * time.Millisecond

func (m *Mix) intervals() [][]float64 {
	all := make([][]float64, m.lasts/m.interval)
	for i := range all {
		all[i] = make([]float64, len(m.Flows))
	}
	return all
}

func (m *Mix) dueOfRate(gave []float64) [][]float64 {
	all, left, next := m.intervals(), make([]float64, len(m.Flows)), make([]int, len(m.Flows))
	tokens := 0.0
	for t := time.Duration(0); t < m.lasts; t += instant {
		m.arrive(t, t+instant, left, next, func(c *call) float64 { return float64(c.cost) })
		tokens = min(m.burst, tokens) + gave[t/time.Second]*instant.Seconds()
		for i, x := range m.divide(tokens, left) {
			tokens -= x
			left[i] -= x
			all[t/m.interval][i] += x
		}
	}
	return all
}

func (m *Mix) dueOfWindows() [][]float64 {
	all, left, next := m.intervals(), make([]float64, len(m.Flows)), make([]int, len(m.Flows))
	for k := range all {
		from := time.Duration(k) * m.interval
		m.arrive(from, from+m.interval, left, next, func(c *call) float64 { return float64(c.cost) })
		all[k] = m.divide(m.perSecond*m.interval.Seconds(), left)
		for i, x := range all[k] {
			left[i] -= x
		}
	}
	return all
}

// arrive adds to what is left of each flow's demand what comes from one instant until another.
func (m *Mix) arrive(from, to time.Duration, left []float64, next []int, of func(*call) float64) {
	for i, f := range m.Flows {
		if f.greedy {
			left[i] = 0
			if f.calls(from, to) {
				left[i] = endless
			}
			continue
		}
		for ; next[i] < len(f.open) && f.open[next[i]].at < to; next[i]++ {
			left[i] += of(&f.open[next[i]])
		}
	}
}

// dueOfPermits divides permits over calls that run: each needs one at most.
func (m *Mix) dueOfPermits() [][]float64 {
	all, next, want := m.intervals(), make([]int, len(m.Flows)), make([]float64, len(m.Flows))
	running := make([][]float64, len(m.Flows)) // what is left of each call, in seconds
	dt := instant.Seconds()
	for t := time.Duration(0); t < m.lasts; t += instant {
		for i, f := range m.Flows {
			if f.greedy {
				want[i] = 0
				if f.calls(t, t+instant) {
					want[i] = endless
				}
				continue
			}
			for ; next[i] < len(f.open) && f.open[next[i]].at < t+instant; next[i]++ {
				running[i] = append(running[i], f.open[next[i]].takes.Seconds())
			}
			want[i] = float64(len(running[i]))
		}
		for i, x := range m.divide(m.perSecond, want) {
			if m.Flows[i].greedy {
				all[t/m.interval][i] += x * dt
				continue
			}
			kept := running[i][:0]
			for _, left := range running[i] {
				has := math.Min(1, x)
				x -= has
				ran := math.Min(left, has*dt)
				all[t/m.interval][i] += ran
				if left -= ran; left > 1e-9 {
					kept = append(kept, left)
				}
			}
			running[i] = kept
		}
	}
	return all
}
