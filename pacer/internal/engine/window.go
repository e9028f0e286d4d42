package engine

import "sort"

// Window counts calls per bucket of time.
//
// A fixed or calendar window is one bucket. A sliding window of m buckets is conservative: a call in bucket k
// counts for every bucket from k to k+m, so that any window of the period's length holds at most the limit. A
// call may go into bucket k if that keeps the sum within the limit for each of k..k+m: looking forward as
// well as back is what lets a call go in front of reservations that exist.
//
// Buckets are known by the instant at which they begin, not by a number, so that a changed period or time
// zone meets counts that still mean what they say.
type Window struct {
	counts map[int64]int64
	last   int64 // begin of the last bucket that ever held a call
	ends   int64 // when the last count stops to count
	pause  int64
	tidied int64 // when past buckets are forgotten next
	full   full

	pick     int64 // begin of the bucket chosen
	frontier int64 // what full.until may be set to on commit
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
	i := sort.Search(len(l.Bounds), func(i int) bool { return l.Bounds[i] > t })
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
		i := sort.Search(len(l.Bounds), func(i int) bool { return l.Bounds[i] > b })
		if i < len(l.Bounds) {
			return l.Bounds[i]
		}
	}
	return b + l.Spec.Interval
}

// reach returns when a call in the bucket that begins at b stops to count.
func (l *Limit) reach(b int64) int64 { return l.next(b) + l.Spec.Buckets*l.Spec.Interval }

func mod(a, b int64) int64 { return ((a % b) + b) % b }

// Earliest implements [Account].
func (w *Window) Earliest(l *Limit, now, e, n int64, tail bool) int64 {
	width, m, limit := l.Spec.Interval, l.Spec.Buckets, l.Spec.Limit
	k := l.floor(e)
	if e >= l.next(k)-l.Spec.Guard {
		k = l.next(k)
	}
	w.frontier = l.floor(now)
	if w.full.limit == limit && w.full.width == width {
		w.frontier = max(w.frontier, l.floor(w.full.until))
	}
	k = max(k, w.frontier)
	if tail && w.ends > 0 {
		if after := l.reach(w.last); after > k {
			k = l.floor(after + width - 1) // on this grid, and not before
		}
	}
	for {
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

// over returns the last of the buckets k..k+m whose sum would exceed the limit with n more calls, and with one more.
func (w *Window) over(k, m, width, limit, n int64) (forN, forOne int64) {
	forN, forOne = none, none
	sum := int64(0)
	for i := k - m*width; i < k; i += width {
		sum += w.counts[i]
	}
	for j := k; j <= k+m*width; j += width {
		sum += w.counts[j]
		if sum+n > limit {
			forN = j
		}
		if sum+1 > limit {
			forOne = j
		}
		sum -= w.counts[j-m*width]
	}
	return forN, forOne
}

// Commit implements [Account].
func (w *Window) Commit(l *Limit, now, s, n int64) (Charge, int64) {
	w.tidy(l, now)
	if w.counts == nil {
		w.counts = make(map[int64]int64)
	}
	w.counts[w.pick] += n
	w.last = max(w.last, w.pick)
	w.ends = max(w.ends, l.reach(w.pick))
	if w.frontier > l.floor(now) {
		w.full = full{w.frontier, l.Spec.Limit, l.Spec.Interval}
	}
	return Charge{From: w.pick, To: n}, l.next(w.pick) - l.Spec.Guard - 1 - s
}

// tidy forgets the buckets that count no more, once per period.
func (w *Window) tidy(l *Limit, now int64) {
	if now < w.tidied {
		return
	}
	oldest := l.floor(now) - l.Spec.Buckets*l.Spec.Interval
	for b := range w.counts {
		if b < oldest {
			delete(w.counts, b)
		}
	}
	w.tidied = l.reach(l.floor(now))
}

// Cancel implements [Account].
func (w *Window) Cancel(l *Limit, now int64, c Charge) {
	have := w.counts[c.From]
	if have == 0 || l.reach(c.From) <= now {
		return
	}
	if have > c.To {
		w.counts[c.From] = have - c.To
	} else {
		delete(w.counts, c.From)
	}
	w.full.until = min(w.full.until, c.From-l.Spec.Buckets*l.Spec.Interval)
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

// Expires implements [Account].
func (w *Window) Expires() int64 { return max(w.ends, w.pause) }

// Inspect implements [Account].
func (w *Window) Inspect(l *Limit, now int64) Inspection {
	in := Inspection{Paused: w.pause}
	pick, frontier := w.pick, w.frontier
	in.Next = w.Earliest(l, now, max(now, w.pause), 1, false)
	w.pick, w.frontier = pick, frontier
	cur := l.floor(now)
	for b, n := range w.counts {
		if b > cur {
			in.Backlog += n
		}
	}
	if in.Paused > now {
		return in
	}
	in.Paused = 0
	if now < l.next(cur)-l.Spec.Guard {
		in.Remaining = l.Spec.Limit
		width, m := l.Spec.Interval, l.Spec.Buckets
		for j := cur; j <= cur+m*width; j += width {
			sum := int64(0)
			for i := j - m*width; i <= j; i += width {
				sum += w.counts[i]
			}
			in.Remaining = max(0, min(in.Remaining, l.Spec.Limit-sum))
		}
	}
	return in
}
