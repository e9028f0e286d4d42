package engine

import (
	"slices"
	"sort"
)

// Window counts calls per bucket of time.
//
// A fixed or calendar window is one bucket. A sliding window of m buckets is conservative: a call in bucket k
// counts for every bucket from k to k+m, so that any window of the period's length holds at most the limit. A
// call may go into bucket k if that keeps the sum within the limit for each of k..k+m: looking forward as
// well as back is what lets a call go in front of reservations that exist.
//
// Buckets are known by the instant at which they begin, not by a number, so that a changed period or time
// zone meets counts that still mean what they say.
//
// A call that is tracked also counts as on its way until it is known to have been answered. So when the upstream
// says how many calls it will still admit, those that it has not seen yet can be told from those of others.
type Window struct {
	buckets []bucket // in order of time
	last    int64    // begin of the last bucket that ever held a call
	ends    int64    // when the last count stops to count
	pause   int64
	tidied  int64 // when past buckets are forgotten next
	full    full

	learned int64 // the limit that the upstream says it has; 0 for none
	until   int64 // when that ends

	pick     int64 // begin of the bucket chosen
	present  int64 // begin of the bucket that held now then
	frontier int64 // what full.until may be set to on commit
}

// A bucket is what was counted from one instant on.
type bucket struct {
	begin int64
	n     int64
	open  int64 // of n: tracked calls that are on their way
}

// full remembers the head of the line: no bucket before until has room for even one call. It holds for one
// limit and width.
type full struct{ until, limit, width int64 }

// floor returns the begin of the bucket that holds t.
func (l *Limit) floor(t int64) int64 {
	w := l.Spec.Interval
	if len(l.Bounds) == 0 {
		return t - mod(t, w)
	}
	i := l.after(t)
	if i == 0 {
		return t - mod(t-l.Bounds[0], w) // before the calendar's table: only a clock that steps back gets here
	}
	if i < len(l.Bounds) {
		return l.Bounds[i-1]
	}
	end := l.Bounds[i-1]
	return t - mod(t-end, w)
}

// next returns the begin of the bucket after the one that begins at b.
func (l *Limit) next(b int64) int64 {
	if len(l.Bounds) > 0 {
		if i := l.after(b); i < len(l.Bounds) {
			return l.Bounds[i]
		}
	}
	return b + l.Spec.Interval
}

// after returns the index of the first bound after t. It is one of the first as a rule.
func (l *Limit) after(t int64) int {
	i := 0
	for i < len(l.Bounds) && l.Bounds[i] <= t {
		i++
	}
	return i
}

// reach returns when a call in the bucket that begins at b stops to count.
func (l *Limit) reach(b int64) int64 { return l.next(b) + l.Spec.Buckets*l.Spec.Interval }

// limit returns the limit that holds at now.
func (w *Window) limit(l *Limit, now int64) int64 {
	if w.learned > 0 && now < w.until {
		return min(w.learned, l.Spec.Limit)
	}
	return l.Spec.Limit
}

// mod returns the remainder of a by b that is not negative; b is positive.
func mod(a, b int64) int64 {
	r := a % b
	if r < 0 {
		r += b
	}
	return r
}

// find returns the index of the first bucket that does not begin before b.
func (w *Window) find(b int64) int {
	return sort.Search(len(w.buckets), func(i int) bool { return w.buckets[i].begin >= b })
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

// A cursor looks up what buckets hold, from the earliest to the latest.
type cursor struct {
	buckets []bucket // those that are still to come
}

// count returns how many calls the bucket that begins at b holds; b never goes back.
func (c *cursor) count(b int64) int64 {
	for len(c.buckets) > 0 && c.buckets[0].begin < b {
		c.buckets = c.buckets[1:]
	}
	if len(c.buckets) > 0 && c.buckets[0].begin == b {
		return c.buckets[0].n
	}
	return 0
}

// Earliest implements [Account].
func (w *Window) Earliest(l *Limit, now, e, n int64, round int) int64 {
	width, m, limit := l.Spec.Interval, l.Spec.Buckets, w.limit(l, now)
	k := l.floor(e)
	w.present = k
	if e != now {
		w.present = l.floor(now)
	}
	if next := l.next(k); e >= next-l.Spec.Guard {
		k = next
	}
	w.frontier = w.present
	if w.full.limit == limit && w.full.width == width {
		w.frontier = max(w.frontier, l.floor(w.full.until))
	}
	k = max(k, w.frontier)
	for looks := 1; ; looks++ {
		if (round >= lastRound || looks > maxLooks) && w.ends > 0 {
			if after := l.reach(w.last); after > k {
				k = l.floor(after + width - 1) // on this grid, and not before
			}
		}
		over, overOne := w.over(k, m, width, limit, n)
		if overOne != none && k == w.frontier {
			w.frontier = l.next(overOne)
		}
		if over == none {
			break
		}
		k = l.next(over)
	}
	w.pick = k
	return max(e, k)
}

// none is no bucket.
const none = int64(-1)

// over returns the last of the buckets k..k+m whose sum would exceed the limit with n more calls, and with one
// more. A call that costs more than the upstream says it allows at present has a window to itself.
func (w *Window) over(k, m, width, limit, n int64) (forN, forOne int64) {
	forN, forOne = none, none
	first := w.buckets[w.find(k-m*width):]
	enters, leaves := cursor{first}, cursor{first}
	sum := int64(0)
	for i := k - m*width; i < k; i += width {
		sum += enters.count(i)
	}
	for j := k; j <= k+m*width; j += width {
		sum += enters.count(j)
		fits := true
		if sum+n > max(limit, n) {
			forN, fits = j, false
		}
		if sum+1 > limit {
			forOne, fits = j, false
		}
		if fits && len(enters.buckets) == 0 {
			break // from here on, the sum only shrinks
		}
		sum -= leaves.count(j - m*width)
	}
	return forN, forOne
}

// Commit implements [Account].
func (w *Window) Commit(l *Limit, now, s, n int64, tracked bool) (Charge, int64) {
	w.tidy(l, now)
	one := w.add(l, w.pick, n)
	if w.frontier > w.present {
		w.full = full{w.frontier, w.limit(l, now), l.Spec.Interval}
	}
	c := Charge{From: w.pick, To: n, Seen: one.n}
	if tracked {
		one.open += n
		c.To = -n
	}
	return c, l.next(w.pick) - l.Spec.Guard - 1 - s
}

// add counts n calls in the bucket that begins at b, and returns it.
func (w *Window) add(l *Limit, b, n int64) *bucket {
	i := w.find(b)
	if i == len(w.buckets) || w.buckets[i].begin != b {
		w.buckets = slices.Insert(w.buckets, i, bucket{begin: b})
	}
	w.buckets[i].n += n
	w.last = max(w.last, b)
	w.ends = max(w.ends, l.reach(b))
	return &w.buckets[i]
}

// tidy forgets the buckets that count no more, once per period.
func (w *Window) tidy(l *Limit, now int64) {
	if now < w.tidied {
		return
	}
	oldest := l.floor(now) - l.Spec.Buckets*l.Spec.Interval
	w.buckets = slices.Delete(w.buckets, 0, w.find(oldest))
	w.tidied = l.reach(l.floor(now))
}

// Cancel implements [Account].
func (w *Window) Cancel(l *Limit, now int64, c Charge) {
	one, n := w.at(c.From), c.To
	if one == nil || one.n == 0 || l.reach(c.From) <= now {
		return
	}
	if n < 0 {
		n = -n
		one.answered(n)
	}
	one.n = max(0, one.n-n)
	w.full.until = min(w.full.until, max(0, c.From-l.Spec.Buckets*l.Spec.Interval))
}

// answered counts tracked calls as no longer on their way.
func (b *bucket) answered(n int64) {
	if b.open > 0 {
		b.open = max(0, b.open-n)
	}
}

// Settle implements [Account].
func (w *Window) Settle(l *Limit, now int64, c Charge, cost, actual int64) {
	switch {
	case actual <= cost:
		w.Cancel(l, now, Charge{From: c.From, To: cost - actual})
	case l.reach(c.From) > now:
		w.add(l, c.From, actual-cost)
	}
}

// Horizon implements [Account].
func (w *Window) Horizon(l *Limit) int64 {
	if n := len(l.Bounds); n > 0 {
		return l.Bounds[n-1]
	}
	return forever
}

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
		*w = Window{}
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

// othersMargin bounds how much others are expected to spend before calls that are on their way are answered, in
// hundredths of a per cent of the limit. Others that were just seen to spend are taken to be as busy as we are.
const othersMargin = 60

// Remaining implements [Account]. If the upstream says when there is more, its window need not be ours: until then, the
// limit is what we spent and what is left. Otherwise the present bucket is charged with what others must have spent.
// Calls that are on their way are spoken for.
func (w *Window) Remaining(l *Limit, now, bucket, left, done, until int64) bool {
	k := l.floor(now)
	spent := int64(0)
	for b := k - l.Spec.Buckets*l.Spec.Interval; b <= k; b += l.Spec.Interval {
		spent += w.count(b)
	}
	if one := w.at(bucket); one != nil && bucket != 0 {
		one.answered(done)
	}
	open := int64(0)
	if one := w.at(k); one != nil {
		open = one.open
	}
	limit := w.limit(l, now)
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
	w.add(l, k, n+min(open, limit*othersMargin/10_000))
	return true
}

// Claim implements [Account].
func (w *Window) Claim(l *Limit, now int64, c Charge) {
	if missing := c.To - w.count(c.From); missing > 0 && l.reach(c.From) > now {
		w.tidy(l, now)
		w.add(l, c.From, missing)
	}
}

// Renew implements [Account]: a window has no places.
func (w *Window) Renew(*Limit, int64, int64, int64) {}

// Release implements [Account].
func (w *Window) Release(int64) bool { return false }

// Reset implements [Account].
func (w *Window) Reset() { *w = Window{} }

// Expires implements [Account].
func (w *Window) Expires() int64 { return max(w.ends, w.pause, w.until) }

// Inspect implements [Account].
func (w *Window) Inspect(l *Limit, now int64) Inspection {
	limit := w.limit(l, now)
	in := Inspection{Paused: w.pause, Pace: limit}
	pick, present, frontier := w.pick, w.present, w.frontier
	in.Next = w.Earliest(l, now, max(now, w.pause), 1, 0)
	w.pick, w.present, w.frontier = pick, present, frontier
	cur := l.floor(now)
	for _, one := range w.buckets[w.find(cur+1):] {
		in.Backlog += one.n
	}
	if in.Paused > now {
		return in
	}
	in.Paused = 0
	if now < l.next(cur)-l.Spec.Guard {
		in.Remaining = limit
		width, m := l.Spec.Interval, l.Spec.Buckets
		for j := cur; j <= cur+m*width; j += width {
			sum := int64(0)
			for i := j - m*width; i <= j; i += width {
				sum += w.count(i)
			}
			in.Remaining = max(0, min(in.Remaining, limit-sum))
		}
	}
	return in
}
