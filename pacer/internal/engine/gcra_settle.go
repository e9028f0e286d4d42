package engine

import (
	"slices"
	"sort"

	"github.com/headway-go/headway/pacer/internal/numbers"
)

// Settle implements [Account]. A call that cost less gives the end of its interval back, as far as it lies in the future: one emission
// interval for each unit that it did not need, since a charge may be longer, and begin before its slot. The rest of the charge moves to a
// gap, if it can: see pack. A call that cost more is charged after everything that is reserved.
func (g *GCRA) Settle(l *Limit, now int64, charge Charge, cost, actual int64) {
	if g.reset.covers(charge, now) {
		return
	}
	if actual <= cost {
		c := charge.interval()
		from := max(c.from, c.to-l.Spec.Interval*(cost-actual))
		if g.logs(l) {
			if cell, ok := g.log.last(c, cost-actual); ok {
				from = cell
			}
		} else if charge.Made > 0 && l.Spec.Most == 0 && g.pace.interval(l, now) == l.Spec.Interval {
			from = g.pack(l, now, c, from)
		}
		g.giveBack(l, now, c, from)
		return
	}
	g.turn(l, now)
	g.keepLog(l)
	from := max(g.tat, now)
	g.freed = 0
	g.tat = from + debt(actual-cost, g.step(l, now))
	if g.log != nil {
		g.log.debt(l, now, actual-cost, from)
	}
	g.forget(l, now)
}

// pack moves [c.from, to), the part of its charge c that a settled call keeps, into the first gap with room for it, or to the start of the
// gap right before it. It returns where the free rest of c begins. Otherwise each call would leave a gap too short for another call of its
// estimate. The call started before now, so its cells may lie anywhere from now on, and no later than they do. While the rate is lower than its
// limit, a call keeps more than it cost, and nothing moves: gaps would be found at the rate of the limit once the lower one is over.
func (g *GCRA) pack(l *Limit, now int64, c gap, to int64) int64 {
	if to <= c.from || c.to > g.tat {
		return to
	}
	first := sort.Search(len(g.gaps), func(i int) bool { return g.gaps[i].to > now })
	for i := first; i < min(len(g.gaps), first+numbers.MaxLooks) && g.gaps[i].to <= c.from; i++ {
		ends := g.gaps[i].to
		from := max(g.gaps[i].from, now) + to - c.from // of what is left of the gap
		switch {
		case ends == c.from:
			g.gaps = slices.Delete(g.gaps, i, i+1)
			return from
		case ends-from >= l.Spec.Interval:
			g.gaps[i].from = from
			return c.from
		case ends >= from:
			g.gaps = slices.Delete(g.gaps, i, i+1)
			return c.from
		}
	}
	return to
}

// debt returns n·t, at most the longest period of a policy.
func debt(n, t int64) int64 {
	if n > numbers.MaxDebt/t {
		return numbers.MaxDebt
	}
	return n * t
}
