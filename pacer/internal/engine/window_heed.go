package engine

import (
	"github.com/headway-go/headway/luascripts/numbers"
)

// What a window heeds of what an upstream, an operator or another process reports.

// Paused implements [Account].
func (w *Window) Paused() int64 { return w.pause }

// Pause implements [Account].
func (w *Window) Pause(until int64) { w.pause = max(w.pause, until) }

// Resume implements [Account].
func (w *Window) Resume(now int64) {
	if w.pause > 0 {
		w.pause = 0
		w.forget(now)
	}
}

// forget drops everything if it is past.
func (w *Window) forget(now int64) {
	if w.Expires() <= now {
		*w = Window{reset: w.reset}
	}
}

// Slow implements [Account]: windows do not adapt.
func (w *Window) Slow(*Limit, int64, int64) bool { return false }

// Learn implements [Account].
func (w *Window) Learn(l *Limit, now, value, until int64) bool {
	before := w.limit(l, now)
	w.learned, w.until = max(1, value), until
	if value <= 0 || value >= l.Spec.Limit || until <= now {
		w.learned, w.until = 0, 0
	}
	w.forget(now)
	return w.limit(l, now) != before
}

// Remaining implements [Account]. If the upstream says when there is more, its window need not be ours: until then, the
// limit is what we spent and what is left. Otherwise the present bucket is charged with what others must have spent.
// Calls that are on their way are spoken for.
func (w *Window) Remaining(l *Limit, now, bucket, left, done, until int64) bool {
	k := l.floor(now)
	spent := w.ending(l, k).n
	if one := w.at(bucket); one != nil && bucket != 0 {
		one.answered(done)
	}
	open := int64(0)
	if one := w.at(k); one != nil {
		open = one.open
	}
	limit := w.limit(l, now)
	left = min(left, limit) // it may be any number: sums must not overflow
	if until > now {
		if allowed := max(1, spent-open+left); allowed < limit {
			w.learned, w.until = allowed, until
			return true
		}
		return false
	}
	n := limit - left + open - spent
	if n <= 0 || l.Spec.Buckets == 0 && bucket != 0 && bucket != k {
		return false // known, or about a window that is over
	}
	w.tidy(l, now)
	w.add(l, k, n+min(open, limit*numbers.OthersMargin/numbers.OthersWhole))
	return true
}

// Claim implements [Account].
func (w *Window) Claim(l *Limit, now int64, c Charge) {
	begin, n := c.claimed()
	if missing := n - w.count(begin); missing > 0 && l.reach(begin) > now {
		w.tidy(l, now)
		w.add(l, begin, missing)
	}
}
