package engine

import (
	"slices"
	"sort"
)

// How a rate applies reports of an upstream, an operator or another process.

// Slow implements [Account].
func (g *GCRA) Slow(l *Limit, now, at int64) bool {
	g.forget(l, now)
	return g.pace.slow(l, now, at)
}

// Stray implements [Account].
func (g *GCRA) Stray(l *Limit, now, at int64, s Stray) (alone, slower bool) {
	g.forget(l, now)
	if handled, slower := g.pace.fallBack(l, now, at, s.Within); handled {
		return true, slower
	}
	return g.margin.stray(now, at, s), false
}

// Learn implements [Account].
func (g *GCRA) Learn(l *Limit, now, value, until int64) bool {
	g.forget(l, now)
	changed := g.pace.learn(l, now, value, until)
	g.forget(l, now)
	return changed
}

// Claim implements [Account]. It also takes adjacent pieces that are too short for a call.
func (g *GCRA) Claim(l *Limit, now int64, charge Charge) (changed bool) {
	g.forget(l, now)
	g.keepLog(l)
	c := charge.interval()
	from, to, t := max(c.from, now), c.to, l.Spec.Interval
	if from >= to {
		if g.log != nil {
			g.log.claim(now, c, false)
			g.forget(l, now)
		}
		return false
	}
	first := sort.Search(len(g.gaps), func(i int) bool { return g.gaps[i].to > from })
	last := first // the gaps [first, last) meet the interval
	var keep []gap
	for ; last < len(g.gaps) && g.gaps[last].from < to; last++ {
		if from > now { // the past is of no use
			keep = appendGap(keep, g.gaps[last].from, from, t)
		}
		keep = appendGap(keep, to, g.gaps[last].to, t)
	}
	g.gaps = slices.Replace(g.gaps, first, last, keep...)
	changed = last > first || to > g.tat
	if g.log != nil {
		g.log.claim(now, c, changed)
	}
	g.freed = 0
	if to > g.tat {
		if left := max(g.tat, now); from-left >= t {
			g.gaps = append(g.gaps, gap{left, from})
		}
		g.tat = to
	}
	g.sweep(now)
	return changed
}

// appendGap appends the gap [from, to) unless it is too short for a call.
func appendGap(gaps []gap, from, to, t int64) []gap {
	if to-from < t {
		return gaps
	}
	return append(gaps, gap{from, to})
}
