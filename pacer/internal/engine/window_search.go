package engine

import (
	"github.com/headway-go/headway/pacer/internal/numbers"
)

// ending returns the sum of the window that ends with bucket k. It moves the last sum forward if that leads to k.
func (w *Window) ending(l *Limit, k int64) *sum {
	s, back := &w.sum, l.Spec.Buckets*l.Spec.Interval
	if s.back != back || k < s.at {
		from := w.find(k - back)
		*s = sum{back: back, from: from, to: from}
	}
	s.at = k
	for ; s.to < len(w.buckets) && w.buckets[s.to].begin <= k; s.to++ {
		s.n += w.buckets[s.to].n
	}
	for ; s.from < s.to && w.buckets[s.from].begin < k-back; s.from++ {
		s.n -= w.buckets[s.from].n
	}
	return s
}

// Earliest implements [Account].
func (w *Window) Earliest(l *Limit, now, e, n int64, round int) Placement {
	return w.search(w.widened(l, now), now, e, n, round)
}

// search looks for the first bucket that has room.
func (w *Window) search(l *Limit, now, e, n int64, round int) Placement {
	limit := w.limit(l, now)
	k := l.floor(e)
	present := k
	if e != now {
		present = l.floor(now)
	}
	if next := l.next(k); e >= next-l.Spec.Guard {
		k = next
	}
	frontier := present // no bucket before has room for even one call
	if w.full.limit == limit {
		frontier = max(frontier, l.floor(w.full.until))
	}
	k = max(k, frontier)
	for looks, end := 1, l.horizon(); ; looks++ {
		if k >= end { // where the windows behind it begin is not known
			k = end
			break
		}
		if size := len(w.buckets); (round >= numbers.LastRound || looks > numbers.MaxFull) && w.ends > now && size > 0 {
			k = max(k, l.reach(w.buckets[size-1].begin))
		}
		over, overOne := w.over(l, k, limit, n)
		if overOne != none && k == frontier {
			frontier = l.next(overOne)
		}
		if over == none {
			break
		}
		k = l.next(over)
	}
	if frontier == present {
		frontier = 0
	}
	return Placement{At: max(e, k), begin: k, full: frontier}
}

// none is no bucket.
const none = int64(-1)

// over returns the last of the buckets k..k+m whose sum would exceed the limit with n more calls, and with one more. A call that costs more
// than the upstream allows at present has a window to itself.
func (w *Window) over(l *Limit, k, limit, n int64) (forN, forOne int64) {
	forN, forOne = none, none
	if w.total+n <= limit { // whatever the window
		return forN, forOne
	}
	if last := len(w.buckets) - 1; last >= 0 && w.buckets[last].begin > k && w.roomy(l, k, limit, n) {
		return forN, forOne
	}
	s, width := *w.ending(l, k), l.Spec.Interval
	for end := k + s.back; ; {
		// The sum stays until a bucket enters or leaves.
		enters, leaves := w.enters(&s, end), w.leaves(&s, width)
		if s.n+max(n, 1) <= limit && enters == forever {
			return forN, forOne // from here on, it only shrinks
		}
		change := min(enters, leaves, end+width)
		if s.n+n > max(limit, n) {
			forN = change - width
		}
		if s.n+1 > limit {
			forOne = change - width
		}
		if change > end {
			return forN, forOne
		}
		if change == leaves {
			s.n -= w.buckets[s.from].n
			s.from++
		}
		if change == enters {
			s.n += w.buckets[s.to].n
			s.to++
		}
	}
}

// roomy reports whether n calls fit in each window with bucket k. It searches the fullest sum anew only if that of the last search, with what
// was added since, leaves no room.
func (w *Window) roomy(l *Limit, k, limit, n int64) bool {
	p, back := &w.peak, l.Spec.Buckets*l.Spec.Interval
	if p.at != k || p.back != back || p.n+n > limit {
		*p = peak{k, back, w.most(l, k)}
	}
	return p.n+n <= limit
}

// enters returns the next bucket that enters a sum, up to the last one; forever if there is none.
func (w *Window) enters(s *sum, last int64) int64 {
	if s.to < len(w.buckets) && w.buckets[s.to].begin <= last {
		return w.buckets[s.to].begin
	}
	return forever
}

// leaves returns the first bucket whose sum has lost one that is in this sum; forever if there is none.
func (w *Window) leaves(s *sum, width int64) int64 {
	if s.from < s.to {
		return w.buckets[s.from].begin + s.back + width
	}
	return forever
}

// most returns what the fullest of the windows holds that have bucket k in them.
func (w *Window) most(l *Limit, k int64) int64 {
	s := *w.ending(l, k)
	most := s.n
	for {
		enters := w.enters(&s, k+s.back)
		if enters == forever {
			return most
		}
		for w.leaves(&s, l.Spec.Interval) <= enters {
			s.n -= w.buckets[s.from].n
			s.from++
		}
		s.n += w.buckets[s.to].n
		s.to++
		most = max(most, s.n)
	}
}
