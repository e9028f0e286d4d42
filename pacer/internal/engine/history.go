package engine

import (
	"slices"
	"sort"

	"github.com/headway-go/headway/luascripts/numbers"
)

// spent is a cost that was spent at an instant, or will be.
type spent struct{ at, n int64 }

// history returns the cost that an account knows to be spent and that still counts, in order of time.
func (v *version) history(now int64) []spent {
	switch a := v.Account.(type) {
	case *GCRA:
		return a.history(v.shape, now)
	case *Window:
		return a.history(v.shape, now)
	}
	return nil // the number of running calls does not tell how many started
}

// history of a rate is its log, if that is complete, with up to MaxHistory starts to come. Otherwise, and behind these, it is the charged
// time in the future, one call for each interval: the rate has forgotten earlier calls, because their capacity is back. A call whose
// interval begins at x may have started from x − τ on.
func (g *GCRA) history(s shape, now int64) (all []spent) {
	start := now
	if o := g.log; o != nil && o.unlogged+o.within <= now {
		ahead := 0
		for _, one := range o.all[find(o.all, now-o.within+1):] {
			if one.at > now {
				ahead++
			}
			if ahead > numbers.MaxHistory {
				start = all[len(all)-1].at
				break
			}
			if n := len(all); n > 0 && all[n-1].at == one.at {
				all[n-1].n++
			} else {
				all = append(all, spent{one.at, 1})
			}
		}
		if ahead <= numbers.MaxHistory {
			return all
		}
	}
	tau := (s.more - 1) * s.unit
	each := max(1, (max(0, g.tat-start)/s.unit+numbers.MaxHistory)/numbers.MaxHistory) // calls in one item
	take := func(from, to int64) {
		for ; from < to; from += each * s.unit {
			n := min(each, (to-from+s.unit-1)/s.unit)
			at := max(start, from-tau)
			if last := len(all) - 1; last >= 0 && all[last].at == at {
				all[last].n += n
			} else {
				all = append(all, spent{at, n})
			}
		}
	}
	from := start
	first := sort.Search(len(g.gaps), func(i int) bool { return g.gaps[i].to > start })
	for _, f := range g.gaps[first:min(len(g.gaps), first+numbers.MaxHistory)] {
		take(from, f.from)
		from = f.to
	}
	take(from, g.tat)
	return all
}

// history of a window is what its counting buckets hold, at the latest instant at which it can have been spent, so that it counts for long
// enough. For future buckets, it is the earliest instant.
func (w *Window) history(s shape, now int64) (all []spent) {
	longer := int64(0)
	if s.calendar {
		longer = s.unit / numbers.LongerBy
	}
	for _, one := range w.buckets {
		if one.n == 0 || one.begin+(s.more+1)*s.unit+longer <= now {
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

// recount counts a cost that was spent at an instant, or will be, whether the limit allows it or not.
func recount(a Account, l *Limit, now, at, n int64) {
	switch a := a.(type) {
	case *GCRA:
		a.recount(l, now, at, n)
	case *Window:
		a.recount(l, now, at, n)
	}
}

// recount counts at most the burst: a bucket cannot be more than empty. Past cost is passed to new accounts only.
func (g *GCRA) recount(l *Limit, now, at, n int64) {
	t := l.Spec.Interval
	if at < now {
		g.freed = 0
		g.tat = min(max(g.tat, at)+debt(n, t), max(g.tat, at+l.Spec.Limit*t))
		return
	}
	for many := l.Spec.Limit; n > 0; {
		many = min(many, n)
		p := g.Earliest(l, now, at, many, 0)
		switch {
		case p.At-at < t:
			g.Commit(l, now, p, many)
			n -= many
		case many == 1:
			return
		default:
			many /= 2
		}
	}
}

func (w *Window) recount(l *Limit, now, at, n int64) {
	l = w.widened(l, now)
	if b := l.floor(at); l.reach(b) > now {
		w.tidy(l, now)
		w.add(l, b, n)
	}
}

// offGrid reports whether counts are on another grid than that of a calendar: its time zone has changed, or they were charged to instants
// when their windows were not known.
func (w *Window) offGrid(l *Limit) bool {
	return len(l.Bounds) > 0 && slices.ContainsFunc(w.buckets, func(b bucket) bool { return b.begin >= l.Bounds[0] && l.floor(b.begin) != b.begin })
}
