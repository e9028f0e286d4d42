package engine

import (
	"slices"
	"sort"
)

// Window counts calls per bucket of time.
//
// A fixed or calendar window is one bucket. A sliding window of m buckets is conservative: a call in bucket k counts for every bucket from
// k to k+m, so that any window of the period's length holds at most the limit. A call may go into bucket k if that keeps the sum within the
// limit for each of k..k+m: looking forward as well as back lets a call start before existing reservations.
//
// Buckets are known by the instant at which they begin, and are all on one grid: see Kept.
//
// No search reads all buckets of a window, which may be a hundred: usually the total shows that there is room, and the sum of the last window
// moves to the next one, bucket by bucket.
type Window struct {
	inert

	buckets []bucket // in order of time; the last one is the last that ever held a call
	total   int64    // what they hold
	ends    int64    // when the last count stops to count
	full    full
	sum     sum
	peak    peak

	learned int64 // the limit that the upstream states; 0 for none
	until   int64 // when that ends
	margin  margin
	reset   mark

	line, since  int64 // of a window with a pace: how far that has come, in thousandths, and when that was; of a sliding one, since is its front
	quiet, noted int64 // of a part: begin of the first window since its party's last call, and until when that is known
}

// A bucket is the count from one instant on.
type bucket struct {
	begin int64
	n     int64
}

// A sum is what the window holds that ends with a bucket: the buckets [from, to).
type sum struct {
	at, back int64 // the bucket's begin, and how long before it the window begins
	from, to int
	n        int64
}

// A peak is no less than what the fullest of the windows holds that have a bucket in them.
type peak struct{ at, back, n int64 }

// full remembers the head of the queue: no bucket before until has room for even one call. It holds for one limit.
type full struct{ until, limit int64 }

// limit returns the limit that holds at now.
func (w *Window) limit(l *Limit, now int64) int64 {
	if w.learned > 0 && now < w.until {
		return min(w.learned, l.Spec.Limit)
	}
	return l.Spec.Limit
}

// widened returns the limit with the margin: a sliding window reaches back over more buckets, and a fixed one has a longer guard. A calendar's
// has no margin.
func (w *Window) widened(l *Limit, now int64) *Limit {
	share := w.margin.at(now)
	if share == 0 || len(l.Bounds) > 0 {
		return l
	}
	spec := *l.Spec
	if spec.Buckets > 0 {
		spec.Buckets = widened(spec.Buckets, share)
	} else {
		spec.Guard = min(spec.Interval-1, spec.Guard+widened(spec.Interval, share)-spec.Interval)
	}
	return &Limit{Spec: &spec}
}

// find returns the index of the first bucket that does not begin before b.
func (w *Window) find(b int64) int {
	last := len(w.buckets) - 1 // most often the one
	if last < 0 || w.buckets[last].begin < b {
		return last + 1
	}
	return sort.Search(last, func(i int) bool { return w.buckets[i].begin >= b })
}

// at returns the bucket that begins at b; nil if nothing was counted there.
func (w *Window) at(b int64) *bucket {
	if i := w.find(b); i < len(w.buckets) && w.buckets[i].begin == b {
		return &w.buckets[i]
	}
	return nil
}

// count returns how many calls the bucket that begins at b holds.
func (w *Window) count(b int64) int64 {
	if one := w.at(b); one != nil {
		return one.n
	}
	return 0
}

// Commit implements [Account].
func (w *Window) Commit(l *Limit, now int64, p Placement, n int64) (Charge, int64) {
	w.tidy(w.widened(l, now), now)
	w.move(l, now, n)
	l = w.widened(l, now)
	one := w.add(l, p.begin, n)
	if p.full > 0 {
		w.full = full{p.full, w.limit(l, now)}
	}
	if l.Spec.Ahead > 0 && l.Spec.Buckets == 0 && p.takes != none {
		w.line, w.since = p.takes, now
	}
	return chargeIn(p.begin, n, one.n), l.next(p.begin) - l.Spec.Guard - 1 - p.At
}

// move moves the front of a sliding window on by n, or back.
func (w *Window) move(l *Limit, now, n int64) {
	switch {
	case l.Spec.Ahead == 0 || l.Spec.Buckets == 0:
	case n > 0:
		w.since = max(w.since, now) + l.pace(n)
	default:
		w.since = max(0, w.since-l.pace(-n))
	}
}

// add counts n calls in the bucket that begins at b, and returns it.
func (w *Window) add(l *Limit, b, n int64) *bucket {
	i := w.find(b)
	if i == len(w.buckets) || w.buckets[i].begin != b {
		w.buckets = slices.Insert(w.buckets, i, bucket{begin: b})
		if i < w.sum.to {
			w.sum = sum{}
		}
	}
	w.change(i, n)
	w.ends = max(w.ends, l.reach(b))
	return &w.buckets[i]
}

// change counts n calls more, or fewer, in bucket i.
func (w *Window) change(i int, n int64) {
	w.buckets[i].n += n
	w.total += n
	if s := &w.sum; s.from <= i && i < s.to {
		s.n += n
	}
	if p, b := &w.peak, w.buckets[i].begin; n > 0 && p.at-p.back <= b && b <= p.at+p.back {
		p.n += n
	}
}

// tidy drops the past.
func (w *Window) tidy(l *Limit, now int64) {
	k := l.floor(now)
	gone, oldest := 0, k-l.Spec.Buckets*l.Spec.Interval
	for ; gone < len(w.buckets) && w.buckets[gone].begin < oldest; gone++ {
		w.total -= w.buckets[gone].n
	}
	if gone > 0 {
		w.buckets = slices.Delete(w.buckets, 0, gone)
		if w.sum.from -= gone; w.sum.from < 0 {
			w.sum = sum{}
		} else {
			w.sum.to -= gone
		}
	}
	if w.until <= now {
		w.learned, w.until = 0, 0
	}
	if w.since < k {
		w.line, w.since = 0, 0
	}
	if w.noted <= now {
		w.quiet, w.noted = 0, 0
	}
	if w.full.until != 0 && w.full.until < l.next(k) {
		w.full = full{}
	}
	w.margin.forget(now)
	if w.reset.until <= now {
		w.reset = mark{}
	}
}

// Cancel implements [Account].
func (w *Window) Cancel(l *Limit, now int64, c Charge) (more bool) {
	if begin, n := c.bucket(); !w.reset.covers(c, now) {
		w.giveBack(l, now, begin, n)
	}
	return false
}

// giveBack gives n calls of a bucket back.
func (w *Window) giveBack(l *Limit, now, begin, n int64) {
	wide := w.widened(l, now)
	if n = min(n, w.count(begin)); n == 0 || wide.reach(begin) <= now {
		return
	}
	w.move(l, now, -n)
	w.change(w.find(begin), -n)
	w.full.until = min(w.full.until, max(0, begin-wide.Spec.Buckets*wide.Spec.Interval))
}

// Settle implements [Account]. A cost that was nothing at first has no bucket: it is charged to the present one. The missing part of a
// charge from another grid is charged where it lies in this one.
func (w *Window) Settle(l *Limit, now int64, c Charge, cost, actual int64) {
	wide := w.widened(l, now)
	begin, _ := c.bucket()
	if begin == 0 {
		begin = l.floor(now)
	}
	switch {
	case w.reset.covers(c, now):
	case actual <= cost:
		w.giveBack(l, now, begin, cost-actual)
	default:
		if begin = l.floor(begin); wide.reach(begin) > now {
			w.move(l, now, actual-cost)
			w.add(wide, begin, actual-cost)
		}
	}
}

// Reset implements [Account].
func (w *Window) Reset(now int64) { *w = Window{reset: w.reset.reset(now, w.ends)} }

// Expires implements [Account].
func (w *Window) Expires() int64 { return max(w.ends, w.until, w.margin.until, w.noted, w.since) }

// Remembers implements [Account].
func (w *Window) Remembers() int64 { return w.reset.until }

// Inspect implements [Account].
func (w *Window) Inspect(l *Limit, now int64) Inspection {
	limit := w.limit(l, now)
	in := Inspection{Pace: limit, Margin: w.margin.at(now)}
	in.Next = w.Earliest(l, now, now, 1, 0).At
	l = w.widened(l, now)
	in.Full = w.untilFull(l, now)
	cur := l.floor(now)
	for _, one := range w.buckets[w.find(cur+1):] {
		in.Backlog += one.n
	}
	if l.Spec.Floor > 0 {
		limit, in.Pace = l.Spec.Floor, l.Spec.Floor
	}
	if now < l.next(cur)-l.Spec.Guard {
		in.Remaining = max(0, limit-w.most(l, cur))
	}
	return in
}

// untilFull returns when the whole limit is available again. The limit has the present margin.
func (w *Window) untilFull(l *Limit, now int64) int64 {
	at := now
	if w.limit(l, now) < l.Spec.Limit {
		at = max(at, w.until)
	}
	for _, b := range slices.Backward(w.buckets) {
		if b.n > 0 {
			at = max(at, l.reach(b.begin))
			break
		}
	}
	if next := l.next(l.floor(at)); at >= next-l.Spec.Guard {
		return next
	}
	return at
}
