package engine

import (
	"slices"

	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/policies/specs"
)

// A Kept is the account of a key between calls. There is one, whatever limit calls have:
//
//   - Another limit of a window, burst of a rate or number of permits is compared with the same account.
//   - An instant means the same under any emission interval. So a rate keeps its tail, its gaps and its log. A faster one goes between the
//     calls of those before: see opened.
//   - A window on another grid begins with what the old one counts: in its present bucket, or where it is reserved.
//   - A rate that replaces a window lacks as many calls as that counts, at most its burst. A window that replaces a rate counts in its
//     present bucket the calls that the rate lacks.
type Kept struct {
	Account

	grid grid
}

// A grid is the part of a limit on which the meaning of an account depends: of a window, its buckets.
type grid struct {
	algorithm specs.Algorithm
	calendar  bool
	width     int64 // of a bucket
	buckets   int64 // that count before its own
}

func gridOf(s *specs.Spec) grid {
	if s.Algorithm == specs.Window {
		return grid{s.Algorithm, s.Calendar != nil, s.Interval, s.Buckets}
	}
	return grid{algorithm: s.Algorithm}
}

// AreRunning reports whether a limit is one of calls that are running. Their account has nothing in common with others of its key.
func AreRunning(s *specs.Spec) bool { return s.Algorithm == specs.Concurrency }

// NewKept returns an account as it is kept, which has the grid of a limit.
func NewKept(l *Limit, a Account) Kept { return Kept{a, gridOf(l.Spec)} }

// Serves reports whether the account can be used under a limit as it is: by calls, or by requests that charge nothing.
func (k *Kept) Serves(l *Limit, now int64, calls bool) bool {
	if k.grid != gridOf(l.Spec) {
		return false
	}
	switch a := k.Account.(type) {
	case *GCRA:
		return !calls || !a.opens(l, now)
	case *Window:
		return !a.offGrid(l, now)
	}
	return true
}

// Turned returns the account as it is under a limit that it does not serve. It changes nothing: a refused call leaves the account as it is.
func (k *Kept) Turned(l *Limit, now int64) Kept {
	if g, ok := k.Account.(*GCRA); ok && l.Spec.Algorithm == specs.GCRA {
		return NewKept(l, g.opened(l, now))
	}
	var (
		all []bucket
		m   margin
	)
	switch a := k.Account.(type) {
	case *GCRA:
		all, m = a.lacks(now), a.margin
	case *Window:
		all, m = a.counting(k.grid, now), a.margin
	}
	next := NewKept(l, NewAccount(l.Spec.Algorithm))
	switch a := next.Account.(type) {
	case *GCRA:
		a.margin, a.unit = m, l.Spec.Interval
		sum := int64(0)
		for _, one := range all {
			sum += one.n
		}
		if sum > 0 {
			a.tat = now + debt(min(sum, l.Spec.Limit), l.Spec.Interval)
		}
	case *Window:
		a.margin = m
		on := a.widened(l, now)
		for _, one := range all {
			a.add(on, on.floor(one.begin), one.n)
		}
	}
	return next
}

// lacks returns the calls that a rate has not got back, as if all had started now.
func (g *GCRA) lacks(now int64) []bucket {
	taken := g.tat - now
	for _, f := range g.present(now) {
		taken -= f.to - max(f.from, now)
	}
	if taken <= 0 {
		return nil
	}
	return []bucket{{now, (taken + g.unit - 1) / g.unit}}
}

// counting returns the calls that a window on a grid still counts, past ones as if they started now.
func (w *Window) counting(g grid, now int64) (all []bucket) {
	reach := (g.buckets + 1) * g.width
	if g.calendar {
		reach += g.width / numbers.LongerBy
	}
	for _, one := range w.buckets {
		if one.n > 0 && one.begin+reach > now {
			all = append(all, bucket{max(now, one.begin), one.n})
		}
	}
	return all
}

// offGrid reports whether buckets are not on the grid of a calendar: its time zone has changed, or calls were charged to instants whose
// windows were not known.
func (w *Window) offGrid(l *Limit, now int64) bool {
	if len(l.Bounds) == 0 || len(w.buckets) == 0 {
		return false
	}
	present := l.floor(now)
	return w.ends > now && w.buckets[len(w.buckets)-1].begin < present || // it still counts, and not by these bounds
		slices.ContainsFunc(w.buckets, func(b bucket) bool { return b.begin >= present && l.floor(b.begin) != b.begin })
}
