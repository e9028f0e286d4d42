package stacks

import (
	"slices"

	"github.com/headway-go/headway/policies/specs"
)

// A barrier lets calls pass as soon as a bound allows, in order. For calls that come later it opens later, and never sooner, so those that
// pass at the first instant let all others pass as soon as can be: no schedule has sent more calls at any time. With one barrier after
// the other that holds for all of them together.
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

// barriers are those that calls have to pass.
type barriers []*barrier

func barriersOf(bounds []bound, perTenant bool) (all barriers) {
	for _, b := range bounds {
		if b.perTenant == perTenant {
			all = append(all, &barrier{bound: b})
		}
	}
	return all
}

// open returns the first instant from at on at which all of them let a call pass.
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

// A demand is what one tenant would send. One that is deep has a call that could go at any time.
type demand struct {
	deep  bool
	comes []int64 // otherwise: when its calls come
}

// optimum returns how many calls any schedule can send from one instant to another: at most. For one tenant that is exact. For many
// it is the lower of two ceilings. One has everybody's calls pass the shared barriers as early as they would come if nobody else were
// there, though a call that waits there holds up those that follow it at its own. The other cuts the time where that makes the
// ceiling lower: what goes from s to t is at most what could go if nothing had gone before s.
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

// demandsOf returns those of deep tenants, and how many calls come of the others.
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

// merged returns when calls pass the shared barriers that come as early as their tenants' own limits and the shared ones let
// one tenant alone send them.
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
