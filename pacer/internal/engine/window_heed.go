package engine

import (
	"github.com/headway-go/headway/luascripts/numbers"
)

// How a window applies reports of an upstream, an operator or another process.

// Paused implements [Account].
func (w *Window) Paused() int64 { return w.pause }

// Pause implements [Account].
func (w *Window) Pause(until int64) { w.pause = max(w.pause, until) }

// Resume implements [Account]. It also ends what readings imposed.
func (w *Window) Resume(now int64) {
	w.doubt()
	w.pause, w.learned, w.until = 0, 0, 0
	w.forget(now)
}

// doubt takes back what others are believed to have spent.
func (w *Window) doubt() {
	if i := w.find(w.others.bucket); w.others.n > 0 && i < len(w.buckets) && w.buckets[i].begin == w.others.bucket {
		w.change(i, -min(w.others.n, w.buckets[i].n))
		w.full = full{}
	}
	w.others = others{}
}

// forget drops everything if it is past.
func (w *Window) forget(now int64) {
	if w.Expires() <= now {
		*w = Window{reset: w.reset}
	}
}

// Stray implements [Account].
func (w *Window) Stray(_ *Limit, now, at int64, s Stray) (alone, slower bool) {
	w.forget(now)
	w.margin.forget(now)
	return w.margin.stray(now, at, s), false
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
// limit is what we spent and what is left. Otherwise the present bucket is charged with what others must have spent, in place of what
// they were believed to have spent before: see others. Calls that are on their way are spoken for.
func (w *Window) Remaining(l *Limit, now, bucket, left, done, until int64) bool {
	k := l.floor(now) // of the upstream's windows, which have no margin
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
	if l.Spec.Buckets == 0 && bucket != 0 && bucket != k {
		return false // about a window that is over
	}
	period := now - until
	if period == 0 {
		period = numbers.BelievedFor
	}
	return w.believe(l, now, limit-left+open, min(open, limit*numbers.OthersMargin/numbers.OthersWhole), period)
}

// believe charges the present bucket with what others must have spent if so much is spent of the window in all, and with a margin.
func (w *Window) believe(l *Limit, now, all, margin, period int64) bool {
	k, before := l.floor(now), w.others
	wide := w.widened(l, now)
	if wide.reach(before.bucket) <= now {
		before = others{}
	}
	own := w.ending(l, k).n
	if before.n > 0 && before.bucket <= k && before.bucket >= k-l.Spec.Buckets*l.Spec.Interval && on(before.bucket, k, l.Spec.Interval) {
		own -= before.n
	}
	n := max(0, all-own)
	if n > 0 {
		n += margin
	}
	switch {
	case n < before.n && now < before.read+numbers.LoosenAfter: // an answer that was overtaken
		return false
	case n >= before.n && n-before.n <= margin: // known: that is what the margin is for
		if n > 0 && before.n > 0 {
			w.others.probe, w.others.period = now+period, period
		}
		return false
	}
	w.doubt()
	if n > 0 {
		w.tidy(wide, now)
		w.add(wide, k, n)
		w.others = others{k, n, now, now + period, period}
		if n < before.n {
			w.others.read = before.read
		}
	}
	w.forget(now)
	return true
}

// Claim implements [Account]. That a bucket holds less than somebody remembers does not show that a charge is missing: others may have given
// theirs back.
func (w *Window) Claim(l *Limit, now int64, c Charge) bool {
	l = w.widened(l, now)
	begin, n := c.claimed()
	if missing := n - w.count(begin); missing > 0 && l.reach(begin) > now {
		w.tidy(l, now)
		w.add(l, begin, missing)
	}
	return false
}
