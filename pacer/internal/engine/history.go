package engine

import (
	"sort"

	"github.com/headway-go/headway/luascripts/numbers"
)

// spent is a cost that was spent at an instant, or is to be.
type spent struct{ at, n int64 }

// history returns what an account knows that was spent, in order of time, as far as it still counts.
func (v *version) history(now int64) []spent {
	switch a := v.Account.(type) {
	case *GCRA:
		return a.history(v.shape, now)
	case *Window:
		return a.history(v.shape, now)
	}
	return nil // how many calls run says nothing of how many went
}

// history of a rate is its log, if that knows all that matters. Otherwise it is what is taken of the time to come, a call for each
// interval: the rate has forgotten the others, as they have come back. A call whose interval begins at x may have gone since x − τ.
func (g *GCRA) history(s shape, now int64) (all []spent) {
	if o := g.log; o != nil && o.unlogged+o.within <= now {
		for _, one := range o.all[find(o.all, now-o.within+1):] {
			if n := len(all); n > 0 && all[n-1].at == one.at {
				all[n-1].n++
			} else {
				all = append(all, spent{one.at, 1})
			}
		}
		return all
	}
	tau := (s.more - 1) * s.unit
	each := max(1, ((g.tat-now)/s.unit+numbers.MaxHistory)/numbers.MaxHistory) // calls that are told together
	take := func(from, to int64) {
		for ; from < to; from += each * s.unit {
			n := min(each, (to-from+s.unit-1)/s.unit)
			at := max(now, from-tau)
			if last := len(all) - 1; last >= 0 && all[last].at == at {
				all[last].n += n
			} else {
				all = append(all, spent{at, n})
			}
		}
	}
	from := now
	first := sort.Search(len(g.gaps), func(i int) bool { return g.gaps[i].to > now })
	for _, f := range g.gaps[first:min(len(g.gaps), first+numbers.MaxHistory)] {
		take(from, f.from)
		from = f.to
	}
	take(from, g.tat)
	return all
}

// history of a window is what its buckets hold that still count: at the latest instant at which that can have been spent, so that it
// counts for as long as it may have to. Of what is still to come, it is the earliest.
func (w *Window) history(s shape, now int64) (all []spent) {
	for _, one := range w.buckets {
		if one.n == 0 || one.begin+(s.more+1)*s.unit <= now {
			continue
		}
		at := one.begin
		if at <= now {
			at = min(now, at+s.unit-1)
		}
		all = append(all, spent{at, one.n})
	}
	return all
}

// tell counts what was spent at an instant, or will be, with no regard to whether that was allowed.
func tell(a Account, l *Limit, now, at, n int64) {
	switch a := a.(type) {
	case *GCRA:
		a.tell(l, now, at, n)
	case *Window:
		a.tell(l, now, at, n)
	}
}

// tell counts at most what the burst holds: a bucket cannot be more than empty. What was spent in the past is only told to new accounts.
func (g *GCRA) tell(l *Limit, now, at, n int64) {
	t := l.Spec.Interval
	if at < now {
		g.tat = min(max(g.tat, at)+debt(n, t), max(g.tat, at+l.Spec.Limit*t))
		return
	}
	for many := l.Spec.Limit; n > 0; {
		many = min(many, n)
		p := g.Earliest(l, now, at, many, 0)
		switch {
		case p.At-at < t:
			g.Commit(l, now, p, many, false)
			n -= many
		case many == 1:
			return
		default:
			many /= 2
		}
	}
}

func (w *Window) tell(l *Limit, now, at, n int64) {
	l = w.widened(l, now)
	if b := l.floor(at); l.reach(b) > now {
		w.tidy(l, now)
		w.add(l, b, n)
	}
}

// offGrid reports whether what was counted last is in another grid than that of a calendar: the calendar has another time zone by now,
// or went on evenly as long as nobody knew it.
func (w *Window) offGrid(l *Limit) bool {
	n := len(w.buckets)
	return len(l.Bounds) > 0 && n > 0 && w.buckets[n-1].begin >= l.Bounds[0] && l.floor(w.buckets[n-1].begin) != w.buckets[n-1].begin
}
