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

// A Saved is what a window counts, in numbers that can be kept in a file.
type Saved struct {
	Width, Buckets int64 // its grid
	Calendar       bool
	Ends           int64      // when its last count stops to count
	Counts         [][2]int64 // of each bucket, in order: its begin, and its calls
	Line, Since    int64      // the pace of a fixed one
}

// Save returns what an account of a window counts at now. It leaves out buckets that begin after the horizon: their calls have not gone.
// It returns false for another account, and for one that counts nothing.
func (k *Kept) Save(now, horizon int64) (Saved, bool) {
	w, ok := k.Account.(*Window)
	if !ok || w.ends <= now {
		return Saved{}, false
	}
	s := Saved{Width: k.grid.width, Buckets: k.grid.buckets, Calendar: k.grid.calendar, Ends: w.ends}
	if k.grid.buckets == 0 { // the front of a sliding window may be that of calls that are left out
		s.Line, s.Since = w.line, w.since
	}
	for _, b := range w.buckets {
		if b.n > 0 && b.begin <= horizon {
			s.Counts = append(s.Counts, [2]int64{b.begin, b.n})
		}
	}
	return s, len(s.Counts) > 0
}

// Restored returns the account that was saved. The counts must be in order.
func Restored(s Saved) Kept {
	w := &Window{ends: s.Ends, line: s.Line, since: s.Since}
	for _, c := range s.Counts {
		w.buckets = append(w.buckets, bucket{c[0], c[1]})
		w.total += c[1]
	}
	return Kept{w, grid{specs.Window, s.Calendar, s.Width, s.Buckets}}
}
