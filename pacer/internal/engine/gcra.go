package engine

import (
	"math"
	"slices"
	"sort"

	"github.com/headway-go/headway/pacer/internal/numbers"
)

// GCRA is the generic cell rate algorithm, extended to remember gaps.
//
// Plain GCRA keeps one number, the theoretical arrival time (TAT). A reservation in the future moves TAT there, and the capacity before it
// is lost. This account keeps its free virtual time instead: the tail [tat, ∞), and the gaps that future reservations left behind.
//
// Every granted cell owns an interval of length T whose start lies in [s, s+τ], where s is the time at which it starts. The intervals are
// disjoint, so N cells that start within Δ need (N−1)·T ≤ Δ + τ, which is GCRA conformance, in whatever order they were reserved, cancelled
// and backfilled. The interval also bounds how late a call may start: until the start of its interval.
//
// While the upstream allows less than the limit, intervals are longer than T (see pace) and bursts are smaller: the tolerance stays
// (B−1)·T, so that calls conform to the limit throughout, whatever the pace was when each of them was charged.
//
// If a limit also bounds its windows, the account also keeps a log of starts: see startLog.
//
// A piece that is too short for a call is not kept as a gap: the reservation that leaves it takes it, and gives it back when it is
// cancelled. So a cancelled reservation leaves the account exactly as it was, unless there were more gaps than numbers.MaxGaps, of which the
// shortest counts as taken.
type GCRA struct {
	inert

	tat    int64 // the tail begins here; 0 for a new account
	gaps   []gap // disjoint, in order of time, all before tat; few, so that the account has a bound
	unit   int64 // the shortest emission interval since the tail was last past
	pace   pace
	margin margin
	queue  *Queue    // nil if no call was ever in it
	log    *startLog // when calls start; nil if the limit needs no log
	reset  mark
	// freed is where an interval of a share began that was given back after its begin; 0 if something was charged since. See wants.before.
	freed int64
}

// A gap is an interval [from, to) of virtual time.
type gap struct{ from, to int64 }

// forever is the end of the tail.
const forever = int64(math.MaxInt64)

// tail stands for the tail where other indexes are those of gaps.
const tail = -1

// piece returns a piece of free virtual time: a gap, or the tail.
func (g *GCRA) piece(index int) gap {
	if index == tail {
		return gap{g.tat, forever}
	}
	return g.gaps[index]
}

// Earliest implements [Account].
func (g *GCRA) Earliest(l *Limit, now, e, n int64, round int) Placement {
	if l.Spec.Most > 0 {
		return g.exact(l, now, e, n, round)
	}
	w := g.wants(l, now, n, false)
	return g.search(now, e, &w, round)
}

// wants is what a call needs from an account.
type wants struct {
	step int64 // the emission interval at present
	lead int64 // how much is left free before it
	room int64 // how much must be free from its start on
	late int64 // how long after the start it may go at the earliest; before, if negative

	phase int64 // how long after a multiple of step it begins; 0: anywhere
}

// step returns the emission interval at now, with the margin.
func (g *GCRA) step(l *Limit, now int64) int64 {
	if g.pace.isUsual() && g.margin.share == 0 {
		return l.Spec.Interval
	}
	return widened(g.pace.interval(l, now), g.margin.at(now))
}

// wants returns what a call of cost n needs. With strictly, neither this call nor the next ones have a tolerance: see startLog.
func (g *GCRA) wants(l *Limit, now, n int64, strictly bool) wants {
	t, tau := l.Spec.Interval, l.Spec.Tolerance()
	step := g.step(l, now)
	if strictly {
		return wants{step: step, lead: (n - 1) * t, room: max(n*step, n*t+tau), late: max(0, (n-1)*t-tau)}
	}
	w := wants{step: step, room: n * step, late: (n-1)*t - tau}
	if step == t {
		w.phase = l.Spec.Phase
	}
	return w
}

// before returns how long before its slot the interval of a call begins if the call costs more than the burst. Such a call occurs only if
// just a share of a limit is available. It cannot conform, so it is charged time before its slot.
func (w *wants) before() int64 { return max(0, w.late) }

// search places a call at the earliest possible instant from e on.
func (g *GCRA) search(now, e int64, w *wants, round int) Placement {
	if round < numbers.LastRound {
		least, tooMany := e-w.before()+w.room, max(0, round+1-numbers.ManyRounds)
		first := sort.Search(len(g.gaps), func(i int) bool { return g.gaps[i].to >= least })
		for i := first; i < min(len(g.gaps), first+numbers.MaxLooks); i++ {
			if (g.gaps[i].to-g.gaps[i].from)>>tooMany < w.room {
				continue
			}
			if p, ok := g.fit(now, e, w, i); ok {
				return p
			}
		}
	}
	p, _ := g.fit(now, e, w, tail)
	return p
}

// fit places the call in a free piece, as early as possible; false if it does not fit.
func (g *GCRA) fit(now, e int64, w *wants, index int) (Placement, bool) {
	free := g.piece(index)
	from := max(free.from, now)
	if w.before() > 0 && g.freed > 0 {
		from = max(free.from, min(now, g.freed))
	}
	x := max(from+w.lead, e-w.before())
	if w.phase > 0 {
		x += mod(w.phase-x, w.step)
	}
	// Leave a gap that can be used: a whole number of intervals, if that does not move the slot.
	if x > from {
		if r := (x - from) % w.step; r > 0 {
			if y := x + w.step - r; y+w.late <= e && y+w.room <= free.to {
				x = y
			}
		}
	}
	if x+w.room > free.to {
		return Placement{}, false
	}
	return Placement{At: max(e, x+w.late), begin: x, takes: int64(index)}, true
}

// Commit implements [Account].
func (g *GCRA) Commit(l *Limit, now int64, p Placement, n int64) (Charge, int64) {
	g.turn(l, now)
	g.keepLog(l)
	t, free, was := l.Spec.Interval, g.piece(int(p.takes)), g.tat
	from := min(max(free.from, now), p.begin)
	g.freed = 0
	c := gap{p.begin, p.begin + n*g.step(l, now)}
	keep := make([]gap, 0, 2)
	if p.begin-from >= t {
		keep = append(keep, gap{from, p.begin})
	} else {
		c.from = from
	}
	if p.takes == tail {
		g.tat = c.to
		g.gaps = append(g.gaps, keep...)
	} else {
		if free.to-c.to >= t {
			keep = append(keep, gap{c.to, free.to})
		} else {
			c.to = free.to
		}
		g.gaps = slices.Replace(g.gaps, int(p.takes), int(p.takes)+1, keep...)
	}
	slack := max(0, p.begin-p.At)
	if g.log != nil {
		g.log.add(l, p.At, n, p.begin)
		g.log.tidy(was, g.tat, now, g.within(l, now))
		slack = 0
	}
	g.sweep(now)
	return chargeOf(c), slack
}

// Cancel implements [Account].
func (g *GCRA) Cancel(l *Limit, now int64, c Charge) (more bool) {
	if !g.reset.covers(c, now) {
		g.giveBack(l, now, c.interval(), c.interval().from)
	}
	return false
}

// giveBack gives back the part of a charged interval that lies after an instant.
func (g *GCRA) giveBack(l *Limit, now int64, c gap, from int64) {
	to := min(c.to, g.tat)
	if to <= now || from >= to {
		return // past, or free already
	}
	if g.freed = 0; from < now && l.Spec.Share {
		g.freed = from
	}
	begin := from
	i := sort.Search(len(g.gaps), func(i int) bool { return g.gaps[i].to >= from })
	first := i // the gaps [first, i) are replaced
	if i < len(g.gaps) && g.gaps[i].to == from {
		from = g.gaps[i].from
		i++
	}
	if i < len(g.gaps) && g.gaps[i].from < to {
		return // free already
	}
	g.turn(l, now)
	g.keepLog(l)
	if g.log != nil {
		g.log.remove(c, begin, to)
	}
	if to == g.tat {
		g.tat = from
		g.gaps = slices.Delete(g.gaps, first, i)
	} else {
		if i < len(g.gaps) && g.gaps[i].from == to {
			to = g.gaps[i].to
			i++
		}
		g.gaps = slices.Replace(g.gaps, first, i, gap{from, to})
	}
	g.forget(l, now)
}

// present returns the gaps that are not past.
func (g *GCRA) present(now int64) []gap {
	return g.gaps[sort.Search(len(g.gaps), func(i int) bool { return g.gaps[i].to > now }):]
}

// front returns until when everything is taken from now on; now or before if nothing is.
func (g *GCRA) front(now int64) int64 {
	if gaps := g.present(now); len(gaps) > 0 {
		return gaps[0].from
	}
	return g.tat
}

// opens reports whether the account must be opened for a faster limit: see opened.
func (g *GCRA) opens(l *Limit, now int64) bool {
	return 2*l.Spec.Interval <= g.unit && g.front(now) > now
}

// opened returns the account under a limit that is faster than those before: of the cells from now to the first gap, each keeps an emission
// interval of that limit, and the rest is a gap. So no slot moves, and calls go between those that are reserved. This account stays as it
// is.
func (g *GCRA) opened(l *Limit, now int64) *GCRA {
	o, gaps, t := *g, g.present(now), l.Spec.Interval
	o.gaps, o.log = nil, nil // cells in gaps are not to be taken for those of the log
	ends := g.front(now)
	for x := ends - (ends-now+g.unit-1)/g.unit*g.unit; x < ends && len(o.gaps) < numbers.MaxOpened; x += g.unit {
		o.gaps = append(o.gaps, gap{x + t, x + g.unit})
	}
	o.gaps = append(o.gaps, gaps...)
	o.turn(l, now)
	return &o
}

// turn notes the limit under which the account changes.
func (g *GCRA) turn(l *Limit, now int64) {
	if g.tat <= now || l.Spec.Interval < g.unit {
		g.unit = l.Spec.Interval
	}
	g.pace.adapt(l)
}

// forget is turn and sweep.
func (g *GCRA) forget(l *Limit, now int64) {
	g.turn(l, now)
	g.sweep(now)
}

// sweep drops past gaps, and the shortest of too many; of equally short ones, the last.
func (g *GCRA) sweep(now int64) {
	if max(g.lasts(), g.pace.ends(), g.margin.until, g.reset.until) <= now {
		*g = GCRA{unit: g.unit, queue: g.queue, freed: g.freed}
		return
	}
	if g.reset.until <= now {
		g.reset = mark{}
	}
	g.pace.forget(now)
	g.margin.forget(now)
	if len(g.gaps) > 0 {
		past := sort.Search(len(g.gaps), func(i int) bool { return g.gaps[i].to > now })
		g.gaps = slices.Delete(g.gaps, 0, past)
	}
	for len(g.gaps) > numbers.MaxGaps {
		shortest := 0
		for i, f := range g.gaps {
			if f.to-f.from <= g.gaps[shortest].to-g.gaps[shortest].from {
				shortest = i
			}
		}
		g.gaps = slices.Delete(g.gaps, shortest, shortest+1)
	}
}

// lasts returns until when charges of the account matter.
func (g *GCRA) lasts() int64 {
	if g.log == nil {
		return g.tat
	}
	return max(g.tat, g.log.unlogged) + g.log.within
}

// Release implements [Account].
func (g *GCRA) Release(l *Limit, c Left) bool { return g.queue != nil && g.queue.leave(l, c) }

// Reset implements [Account].
func (g *GCRA) Reset(now int64) { *g = GCRA{reset: g.reset.reset(now, g.tat)} }

// Remembers implements [Account].
func (g *GCRA) Remembers() int64 { return g.reset.until }

// Expires implements [Account].
func (g *GCRA) Expires() int64 {
	ends := max(g.lasts(), g.pace.ends(), g.margin.until)
	if g.queue != nil {
		ends = max(ends, g.queue.furthest)
	}
	return ends
}

// Inspect implements [Account].
func (g *GCRA) Inspect(l *Limit, now int64) Inspection {
	t, reach := l.Spec.Interval, now+l.Spec.Tolerance()
	in := Inspection{Pace: g.pace.interval(l, now), Margin: g.margin.at(now)}
	step := g.step(l, now)
	free := int64(0) // virtual time after reach that is free and before the tail
	look := func(f gap) {
		from := max(f.from, now)
		if from <= reach && f.to-from >= step {
			in.Remaining += min((f.to-from)/step, (reach-from)/step+1)
		}
		if f.to != forever {
			free += max(0, f.to-max(from, reach))
		}
	}
	for _, f := range g.present(now) {
		look(f)
	}
	look(gap{g.tat, forever})
	if g.tat > reach {
		in.Backlog = max(0, g.tat-reach-free-1) / t
	}
	in.Next = g.Earliest(l, now, now, 1, 0).At
	if g.queue != nil {
		in.Queued = g.queue.length(now)
	}
	if l.Spec.Most > 0 {
		in.Remaining = min(max(1, g.free(l, now)), max(1, in.Remaining))
		if _, unlogged := g.starts(l); now < unlogged+g.within(l, now) {
			in.Remaining = 1
		}
	}
	if (l.Spec.Most > 0 || l.Spec.Phase > 0) && in.Next > now {
		in.Remaining = 0
	}
	in.Full = g.full(l, now)
	return in
}

// full returns when the whole burst is available again.
func (g *GCRA) full(l *Limit, now int64) int64 {
	at := max(now, g.tat, g.pace.usualFrom(l, now))
	if l.Spec.Most == 0 {
		return at
	}
	// Of the last window's starts, the burst leaves some as they are if it is smaller than what a window holds.
	all, unlogged := g.starts(l)
	within := g.within(l, now)
	if last := int64(len(all)) - 1 - max(0, l.Spec.Most-l.Spec.Limit); last >= 0 {
		at = max(at, all[last].at+within)
	}
	return max(at, unlogged+within)
}
