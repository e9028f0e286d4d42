package engine

import (
	"cmp"
	"slices"

	"github.com/headway-go/headway/pacer/internal/numbers"
)

// A startLog makes the windows of a rate exact: no more than Most calls start in any time shorter than Within, W for short.
//
// A rate of T = W/Most with a tolerance admits a few more than that, as many as its burst is above 1. So the account also remembers when
// calls start, for as long as that can matter, one start for each unit of cost. A call starts at s only if no group of Most + 1 consecutive
// starts that includes it is shorter than W. Such a group has some number b of the starts after s and Most + 1 − n − b of those before, so
// it is enough to check as many groups as there are starts in [s, s + W), usually none or a few. If a group is too short, then so are all
// groups with the call until W after the first start of that group. So the next slot to try is that instant.
//
// The intervals of virtual time spread the starts, and the log removes what the tolerance would add. No capacity is lost: a call that the
// log delays starts exactly when the window has room, and the tolerance permits it. A call must start at its slot, since later calls may
// depend on that instant: the slack is 0.
//
// A log may lack the starts of calls that were charged when the limit had no such bound, or that a process claims after the store has lost
// its data. All of these begin before unlogged. Within W of that, a call is placed so that no log is needed: strictly. Cells are at least T
// long, and each start lies in [x − τ, x], x being the start of its cell. So the k-th start before a free piece [a, b) is no later than a −
// kT, the k-th behind it no earlier than b − τ + (k−1)T, and n more in between, at s, are in no group shorter than Most·T ≥ W if a + (n−1)T
// ≤ s ≤ b − τ − nT. They get the interval from s on.
//
// Each start has a cell of virtual time, whose begin identifies it: the start is removed when its cell is given back. If the limit changes,
// another log begins.
type startLog struct {
	all      []start // in order
	unlogged int64   // there may have been others before
	within   int64   // W of the limit
	tau      int64   // its tolerance
}

// A start is when one unit of cost starts, and the start of its cell; negative if it cannot be given back.
type start struct{ at, cell int64 }

// logs reports whether an account keeps a log for a limit.
func (g *GCRA) logs(l *Limit) bool {
	return g.log != nil && g.log.within == l.Spec.Within && g.log.tau == l.Spec.Tolerance()
}

// starts returns the known starts of calls under a limit.
func (g *GCRA) starts(l *Limit) (all []start, unlogged int64) {
	if !g.logs(l) {
		return nil, g.tat
	}
	return g.log.all, g.log.unlogged
}

// within returns the length of the windows that the log bounds: the limit's, with the margin.
func (g *GCRA) within(l *Limit, now int64) int64 { return widened(l.Spec.Within, g.margin.at(now)) }

// most returns how many calls may start in a window. While the pace is slower than the limit's, they are fewer.
func (g *GCRA) most(l *Limit, now int64) int64 {
	if g.pace.isUsual() {
		return l.Spec.Most
	}
	step := g.pace.interval(l, now)
	if step <= l.Spec.Interval {
		return l.Spec.Most
	}
	return max(1, min(l.Spec.Most, (l.Spec.Within+step-1)/step))
}

// exact is Earliest of a rate whose windows are exact. A call that costs more than a window holds gets a window to itself.
func (g *GCRA) exact(l *Limit, now, e, n int64, round int) Placement {
	all, unlogged := g.starts(l)
	most := g.most(l, now)
	within := g.within(l, now)
	logged := unlogged + within // from then on, the log knows all that matters
	for work := 0; ; {
		strictly := e < logged
		w := g.wants(l, now, n, strictly)
		if work >= numbers.MaxCrowded {
			round = numbers.LastRound
		}
		p := g.search(now, e, &w, round)
		next, looked := crowded(all, p.At, min(n, most), most, within)
		if strictly && p.At > logged {
			next = logged // from there on it need not be strict
		} else if next <= p.At {
			return p
		}
		e = next
		work += looked
	}
}

// again returns the placement of a call of cost n whose first unit was at a start, if its interval is free; otherwise p.
func (g *GCRA) again(l *Limit, now, n int64, was start, p Placement) Placement {
	step := g.step(l, now)
	old := g.search(now, was.cell, &wants{step: step, room: n * step}, 0)
	if old.begin != was.cell || n > l.Spec.Limit {
		return p
	}
	old.At = was.at
	return old
}

// crowded returns s if n more starts at s are in no group of most + 1 that is shorter than within, otherwise a later instant before which
// there is no such slot. It also returns how much work that took.
func crowded(all []start, s, n, most, within int64) (next int64, work int) {
	others := int(most + 1 - n) // in a group
	if find(all, s+within)-find(all, s-within+1) < others {
		return s, 0
	}
	next, work = s, numbers.CrowdedLook
	after := find(all, s+1)
	for b := range others + 1 { // of those after s are in the group
		last := s
		if b > 0 {
			if after+b > len(all) || all[after+b-1].at-s >= within {
				break
			}
			work++
			last = all[after+b-1].at
		}
		first := after - others + b
		switch {
		case b == others: // all of them
			next = max(next, all[after].at)
		case first >= 0 && last-all[first].at < within:
			next = max(next, all[first].at+within)
		}
	}
	return next, work
}

// find returns the index of the first start that is not before an instant.
func find(all []start, at int64) int {
	i, _ := slices.BinarySearchFunc(all, at, func(a start, at int64) int { return cmp.Compare(a.at, at) })
	return i
}

// keepLog creates a log, if the limit needs one, before something is charged or given back. If the limit needs none, it removes the log,
// which would not be continued.
func (g *GCRA) keepLog(l *Limit) {
	switch {
	case l.Spec.Most == 0:
		g.log = nil
	case !g.logs(l):
		g.log = &startLog{unlogged: g.tat, within: l.Spec.Within, tau: l.Spec.Tolerance()}
	}
}

// add logs n starts of a call whose interval begins at x. It logs at most as many as fill a window. Their cells are no earlier than the
// slot and at most the tolerance later, so that they can be found by the slot.
func (o *startLog) add(l *Limit, at, n, x int64) {
	n = min(n, l.Spec.Most)
	apart := max(1, min(l.Spec.Interval, o.tau/max(1, n-1)))
	o.insert(at, n, max(x, at), apart)
}

// debt logs n starts that were unknown when they happened. They are charged from an instant on, and cannot be given back.
func (o *startLog) debt(l *Limit, at, n, from int64) {
	n = min(n, l.Spec.Most)
	o.all = slices.DeleteFunc(o.all, func(s start) bool { return s.cell <= -from && s.cell > -from-n })
	o.insert(at, n, -from, -1)
}

// insert logs n starts whose cells are a step apart.
func (o *startLog) insert(at, n, cell, apart int64) {
	i := find(o.all, at+1)
	for k := range n {
		o.all = slices.Insert(o.all, i+int(k), start{at, cell + k*apart})
	}
}

// of returns the range of the log that contains the starts of a charge, possibly with others.
func (o *startLog) of(c gap) (first, end int) {
	return find(o.all, c.from-o.tau), find(o.all, c.to)
}

// remove removes the starts of a charge whose cells begin in [from, to).
func (o *startLog) remove(c gap, from, to int64) {
	first, end := o.of(c)
	for i := end - 1; i >= first; i-- {
		if cell := o.all[i].cell; cell >= from && cell < to {
			o.all = slices.Delete(o.all, i, i+1)
		}
	}
}

// first returns the start of the first unit of a charge; −1 if that is not known.
func (o *startLog) first(c gap) start {
	first, end := o.of(c)
	is := start{-1, c.to}
	for _, s := range o.all[first:end] {
		if s.cell >= c.from && s.cell < is.cell {
			is = s
		}
	}
	return is
}

// last returns where the last n cells of a charge begin; false if it has fewer. If a charge is given back twice, these may be cells of
// other charges, in any order.
func (o *startLog) last(c gap, n int64) (int64, bool) {
	var cells []int64
	first, end := o.of(c)
	for _, s := range o.all[first:end] {
		if s.cell >= c.from && s.cell < c.to {
			cells = append(cells, s.cell)
		}
	}
	if n <= 0 || int64(len(cells)) < n {
		return 0, false
	}
	slices.Sort(cells)
	return cells[int64(len(cells))-n], true
}

// claim notes that there may have been unknown starts, before now and until the end of a charge.
func (o *startLog) claim(now int64, c gap, unknown bool) {
	until := min(c.to, now)
	if unknown {
		until = c.to
	}
	if until > now-o.within && (unknown || c.from <= now) {
		o.unlogged = max(o.unlogged, until)
	}
}

// tidy forgets starts that no longer matter, when the tail has moved to another window.
func (o *startLog) tidy(was, tat, now, within int64) {
	if was/o.within != tat/o.within {
		o.all = slices.Delete(o.all, 0, find(o.all, now-within+1))
	}
}

// free returns how many more starts there may be in the window that ends now.
func (g *GCRA) free(l *Limit, now int64) int64 {
	all, _ := g.starts(l)
	return g.most(l, now) - int64(len(all)-find(all, now-g.within(l, now)+1))
}
