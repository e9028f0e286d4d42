package stacks

import (
	"slices"

	"github.com/headway-go/headway/policies/specs"
)

// A barrier lets calls pass as soon as a bound allows, in order. For later calls it opens later, never sooner, so if each call passes at
// the first instant, all others pass as soon as possible: no schedule has sent more calls at any time. That also holds for several barriers
// in a row.
type barrier struct {
	bound
	passed []int64
	tat    int64 // of rates
}

func (g *barrier) open(at int64) int64 {
	if g.kind == evenly || g.kind == atMost {
		at = max(at, g.tat-(g.bursts()-1)*g.interval())
		if g.kind == evenly || g.bursts() == 1 || g.n > specs.MaxExact {
			return at
		}
	}
	period := g.period.Microseconds()
	if len(g.passed) >= int(g.n) {
		switch before := g.passed[len(g.passed)-int(g.n)]; g.kind {
		case atMost:
			at = max(at, before+g.within())
		case sliding:
			width := up(g.within(), g.buckets)
			at = max(at, (before/width+1+g.buckets)*width)
		case fixed:
			at = max(at, (before/period+1)*period)
		case permits:
			at = max(at, before+(g.takes+g.skew).Microseconds())
		case evenly:
		}
	}
	if g.kind == fixed && at%period >= period-g.skew.Microseconds() {
		at = (at/period + 1) * period
	}
	return at
}

func (g *barrier) pass(at int64) {
	g.tat = max(g.tat, at) + g.interval()
	g.passed = append(g.passed, at)
}

// barriers are the barriers that calls have to pass.
type barriers []*barrier

func barriersOf(bounds []bound, perTenant bool) (all barriers) {
	for _, b := range bounds {
		if b.perTenant == perTenant {
			all = append(all, &barrier{bound: b})
		}
	}
	return all
}

// open returns the first instant from at on at which all barriers let a call pass.
func (g barriers) open(at int64) int64 {
	for {
		before := at
		for _, one := range g {
			at = one.open(at)
		}
		if at == before {
			return at
		}
	}
}

func (g barriers) pass(at int64) int64 {
	at = g.open(at)
	for _, one := range g {
		one.pass(at)
	}
	return at
}

// A demand is one tenant's calls. A deep one has a call that could go at any time.
type demand struct {
	deep  bool
	comes []int64 // otherwise: when its calls come
}

// optimum returns at most how many calls any schedule can send from one instant to another. It is exact for one tenant. For many it is the
// lower of two ceilings. In one, the calls of all pass the shared barriers as early as they would without other tenants, though a waiting
// call holds up those that follow it at its own. The other cuts the time where that lowers the ceiling: the calls from s to t are at most
// those that could go if none had gone before s.
func optimum(bounds []bound, demands []demand, from, to int64) int {
	whole := len(merged(bounds, demands, from, to))
	deep, others := demandsOf(demands, to)
	if len(deep) == 0 || len(demands) == 1 {
		return whole
	}
	cuts := cutsOf(bounds, from, to)
	least := make([]int, len(cuts)) // what can go until then
	for i := range cuts {
		times := merged(bounds, deep, cuts[i], to)
		for j := i + 1; j < len(cuts); j++ {
			n, _ := slices.BinarySearch(times, cuts[j])
			if n += least[i]; i == 0 || n < least[j] {
				least[j] = n
			}
		}
	}
	return min(whole, least[len(cuts)-1]+others)
}

// demandsOf returns the demands of deep tenants, and how many calls come from the others.
func demandsOf(demands []demand, to int64) (deep []demand, others int) {
	for _, d := range demands {
		if d.deep {
			deep = append(deep, d)
		} else if n, found := slices.BinarySearch(d.comes, to); n > 0 || found {
			others += n
		}
	}
	return deep, others
}

// cutsOf returns where to cut the time: at the start of windows, and now and then.
func cutsOf(bounds []bound, from, to int64) []int64 {
	const most = 16
	cuts := []int64{from, to}
	for i := range int64(most) {
		cuts = append(cuts, from+(to-from)*i/most)
	}
	for _, b := range bounds {
		period := b.period.Microseconds()
		if b.kind != fixed {
			continue
		}
		step := up((to-from)/period, 2*most) * period
		for at := from/period*period + period; at < to; at += step {
			cuts = append(cuts, at)
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// merged returns when calls pass the shared barriers if each tenant comes as early as its own limits and the shared ones allow it without
// others.
func merged(bounds []bound, demands []demand, from, to int64) (all []int64) {
	for i := range demands {
		alone := append(barriersOf(bounds, true), barriersOf(bounds, false)...)
		for j, at := 0, from; demands[i].deep || j < len(demands[i].comes); j++ {
			if !demands[i].deep {
				at = max(at, demands[i].comes[j])
			}
			if at = alone.pass(at); at >= to {
				break
			}
			all = append(all, at)
		}
	}
	if len(demands) == 1 {
		return all
	}
	slices.Sort(all)
	shared, at := barriersOf(bounds, false), from
	for _, b := range bounds {
		if b.perTenant && b.kind == fixed { // whose windows begin together
			b.n *= int64(len(demands))
			shared = append(shared, &barrier{bound: b})
		}
	}
	for i, came := range all {
		if at = shared.pass(max(at, came)); at >= to {
			return all[:i]
		}
		all[i] = at
	}
	return all
}
