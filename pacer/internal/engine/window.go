package engine

import (
	"slices"
	"sort"

	"github.com/headway-go/headway/luascripts/numbers"
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
// No look at a window goes through all of its buckets, if they are a hundred: what all buckets hold tells as a rule that there
// is room, and what the window held that was looked at last goes on to the next one, bucket by bucket.
//
// A call that is tracked also counts as on its way until it is known to have been answered. So when the upstream
// says how many calls it will still admit, those that it has not seen yet can be told from those of others.
type Window struct {
	buckets []bucket // in order of time; the last one is the last that ever held a call
	total   int64    // what they hold
	ends    int64    // when the last count stops to count
	pause   int64
	full    full
	sum     sum
	peak    peak

	learned int64 // the limit that the upstream says it has; 0 for none
	until   int64 // when that ends
	others  others
	margin  margin
	reset   mark
}

// others is what others are believed to have spent: the upstream said how much is left, and not when there is more. It is a part of what a
// bucket holds. A later reading takes its place. If none comes, one call after another may go in their place, to ask: the first at asks,
// the next ones a fifth of the period later each.
type others struct {
	bucket, n    int64
	read         int64 // when a reading last said that there was less
	asks, period int64
}

// A bucket is what was counted from one instant on.
type bucket struct {
	begin int64
	n     int64
	open  int64 // of n: tracked calls that are on their way
}

// A sum is what the window holds that ends with a bucket: those of the buckets [from, to) that are on its grid.
type sum struct {
	at, width, back int64 // the bucket's begin and width, and how long before it the window begins
	from, to        int
	n               int64
}

// A peak is no less than what the fullest of the windows holds that have a bucket in them.
type peak struct{ at, width, back, n int64 }

// full remembers the head of the queue: no bucket before until has room for even one call. It holds for one
// limit and width.
type full struct{ until, limit, width int64 }

// limit returns the limit that holds at now.
func (w *Window) limit(l *Limit, now int64) int64 {
	if w.learned > 0 && now < w.until {
		return min(w.learned, l.Spec.Limit)
	}
	return l.Spec.Limit
}

// widened returns the limit with the margin: a sliding window reaches back over more buckets, and a fixed one has a longer tail in which
// nothing goes. A calendar's has none.
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

// ending returns the sum of the window that ends with bucket k. It is the last one moved on, if that is so far.
func (w *Window) ending(l *Limit, k int64) *sum {
	s, width, back := &w.sum, l.Spec.Interval, l.Spec.Buckets*l.Spec.Interval
	if s.width != width || s.back != back || k < s.at || !on(k, s.at, width) {
		from := w.find(k - back)
		*s = sum{width: width, back: back, from: from, to: from}
	}
	s.at = k
	for ; s.to < len(w.buckets) && w.buckets[s.to].begin <= k; s.to++ {
		if on(w.buckets[s.to].begin, k, width) {
			s.n += w.buckets[s.to].n
		}
	}
	for ; s.from < s.to && w.buckets[s.from].begin < k-back; s.from++ {
		if on(w.buckets[s.from].begin, k, width) {
			s.n -= w.buckets[s.from].n
		}
	}
	return s
}

// Earliest implements [Account].
func (w *Window) Earliest(l *Limit, now, e, n int64, round int) Placement {
	l = w.widened(l, now)
	p := w.search(l, now, e, n, round)
	asks, i := max(e, w.others.asks), w.find(w.others.bucket)
	if w.others.n == 0 || p.At <= asks || i == len(w.buckets) || w.buckets[i].begin != w.others.bucket {
		return p
	}
	over := w.most(l, l.floor(asks)) + n - w.limit(l, now) // what was charged since may be too much already
	lent, before := min(max(n, over), w.others.n, w.buckets[i].n), w.full
	w.full = full{}
	w.change(i, -lent)
	q := w.search(l, now, asks, n, round)
	w.change(i, lent)
	w.full = before
	if q.At >= p.At {
		return p
	}
	q.full, q.lent = 0, lent
	return q
}

// search looks for the first bucket that has room.
func (w *Window) search(l *Limit, now, e, n int64, round int) Placement {
	width, limit := l.Spec.Interval, w.limit(l, now)
	k := l.floor(e)
	present := k
	if e != now {
		present = l.floor(now)
	}
	if next := l.next(k); e >= next-l.Spec.Guard {
		k = next
	}
	frontier := present // no bucket before has room for even one call
	if w.full.limit == limit && w.full.width == width {
		frontier = max(frontier, l.floor(w.full.until))
	}
	k = max(k, frontier)
	for looks := 1; ; looks++ {
		if size := len(w.buckets); (round >= numbers.LastRound || looks > numbers.MaxLooks) && w.ends > now && size > 0 {
			if after := l.reach(w.buckets[size-1].begin); after > k {
				k = l.floor(after + width - 1) // on this grid, and not before
			}
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

// over returns the last of the buckets k..k+m whose sum would exceed the limit with n more calls, and with one
// more. A call that costs more than the upstream says it allows at present has a window to itself.
func (w *Window) over(l *Limit, k, limit, n int64) (forN, forOne int64) {
	forN, forOne = none, none
	if w.total+n <= limit { // whatever the window
		return forN, forOne
	}
	if last := len(w.buckets) - 1; last >= 0 && w.buckets[last].begin > k && w.roomy(l, k, limit, n) {
		return forN, forOne
	}
	s := *w.ending(l, k)
	for end := k + s.back; ; {
		// The sum stays until a bucket enters or leaves.
		enters, leaves := w.enters(&s, end), w.leaves(&s)
		if s.n+max(n, 1) <= limit && enters == forever {
			return forN, forOne // from here on, it only shrinks
		}
		change := min(enters, leaves, end+s.width)
		if s.n+n > max(limit, n) {
			forN = change - s.width
		}
		if s.n+1 > limit {
			forOne = change - s.width
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

// roomy reports whether n calls fit in each of the windows that have bucket k in them. What the fullest holds is not looked for
// anew as long as even what was added since leaves them room.
func (w *Window) roomy(l *Limit, k, limit, n int64) bool {
	p, width, back := &w.peak, l.Spec.Interval, l.Spec.Buckets*l.Spec.Interval
	if p.at != k || p.width != width || p.back != back || p.n+n > limit {
		*p = peak{k, width, back, w.most(l, k)}
	}
	return p.n+n <= limit
}

// enters returns the next bucket that enters a sum, up to the last one; forever if there is none.
func (w *Window) enters(s *sum, last int64) int64 {
	for ; s.to < len(w.buckets) && w.buckets[s.to].begin <= last; s.to++ {
		if on(w.buckets[s.to].begin, s.at, s.width) {
			return w.buckets[s.to].begin
		}
	}
	return forever
}

// leaves returns the first bucket whose sum has lost one that is in this sum; forever if there is none.
func (w *Window) leaves(s *sum) int64 {
	for ; s.from < s.to; s.from++ {
		if on(w.buckets[s.from].begin, s.at, s.width) {
			return w.buckets[s.from].begin + s.back + s.width
		}
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
		for w.leaves(&s) <= enters {
			s.n -= w.buckets[s.from].n
			s.from++
		}
		s.n += w.buckets[s.to].n
		s.to++
		most = max(most, s.n)
	}
}

// Commit implements [Account].
func (w *Window) Commit(l *Limit, now int64, p Placement, n int64, tracked bool) (Charge, int64) {
	l = w.widened(l, now)
	w.tidy(l, now)
	if p.lent > 0 {
		w.others.n -= p.lent
		w.others.asks = p.At + max(1, w.others.period/numbers.AsksAgain)
		w.change(w.find(w.others.bucket), -p.lent)
	}
	one := w.add(l, p.begin, n)
	if p.full > 0 {
		w.full = full{p.full, w.limit(l, now), l.Spec.Interval}
	}
	if tracked {
		one.open += n
	}
	return chargeIn(p.begin, n, tracked, one.n), l.next(p.begin) - l.Spec.Guard - 1 - p.At
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
	if s := &w.sum; s.from <= i && i < s.to && on(w.buckets[i].begin, s.at, s.width) {
		s.n += n
	}
	if p, b := &w.peak, w.buckets[i].begin; n > 0 && p.at-p.back <= b && b <= p.at+p.back {
		p.n += n
	}
}

// tidy forgets what is past.
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
	if w.pause <= now {
		w.pause = 0
	}
	if w.until <= now {
		w.learned, w.until = 0, 0
	}
	if w.others.n > 0 && l.reach(w.others.bucket) <= now {
		w.others = others{}
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
func (w *Window) Cancel(l *Limit, now int64, c Charge) {
	if begin, n, tracked := c.bucket(); !w.reset.covers(c, now) {
		w.giveBack(w.widened(l, now), now, begin, n, tracked)
	}
}

// giveBack gives n calls of a bucket back.
func (w *Window) giveBack(l *Limit, now, begin, n int64, tracked bool) {
	i := w.find(begin)
	if i == len(w.buckets) || w.buckets[i].begin != begin || w.buckets[i].n == 0 || l.reach(begin) <= now {
		return
	}
	if tracked {
		w.buckets[i].answered(n)
	}
	w.change(i, -min(n, w.buckets[i].n))
	w.full.until = min(w.full.until, max(0, begin-l.Spec.Buckets*l.Spec.Interval))
}

// answered counts tracked calls as no longer on their way.
func (b *bucket) answered(n int64) {
	if b.open > 0 {
		b.open = max(0, b.open-n)
	}
}

// Settle implements [Account]. What cost nothing at first has no bucket: it is charged to the present one.
func (w *Window) Settle(l *Limit, now int64, c Charge, cost, actual int64) {
	l = w.widened(l, now)
	begin, _, _ := c.bucket()
	if begin == 0 {
		begin = l.floor(now)
	}
	switch {
	case w.reset.covers(c, now):
	case actual <= cost:
		w.giveBack(l, now, begin, cost-actual, false)
	case l.reach(begin) > now:
		w.add(l, begin, actual-cost)
	}
}

// Renew implements [Account]: a window has no permits.
func (w *Window) Renew(*Limit, int64, int64, int64) {}

// Release implements [Account].
func (w *Window) Release(int64) bool { return false }

// Reset implements [Account].
func (w *Window) Reset(now int64) { *w = Window{reset: w.reset.reset(now, w.ends)} }

// Expires implements [Account].
func (w *Window) Expires() int64 { return max(w.ends, w.pause, w.until, w.margin.until) }

// Remembers implements [Account].
func (w *Window) Remembers() int64 { return w.reset.until }

// Inspect implements [Account].
func (w *Window) Inspect(l *Limit, now int64) Inspection {
	limit := w.limit(l, now)
	in := Inspection{Paused: w.pause, Pace: limit, Margin: w.margin.at(now)}
	in.Next = w.Earliest(l, now, max(now, w.pause), 1, 0).At
	l = w.widened(l, now)
	in.Full = w.untilFull(l, now)
	cur := l.floor(now)
	for _, one := range w.buckets[w.find(cur+1):] {
		in.Backlog += one.n
	}
	if in.Paused > now {
		return in
	}
	in.Paused = 0
	if now < l.next(cur)-l.Spec.Guard {
		in.Remaining = max(0, limit-w.most(l, cur))
	}
	return in
}

// untilFull returns when the whole limit may go again. The limit has the margin that holds now.
func (w *Window) untilFull(l *Limit, now int64) int64 {
	at := max(now, w.pause)
	if w.limit(l, now) < l.Spec.Limit {
		at = max(at, w.until)
	}
	for _, b := range slices.Backward(w.buckets) {
		// What is not on the grid is of another limit, and does not count.
		if b.n > 0 && (b.begin >= l.horizon() || l.floor(b.begin) == b.begin) {
			at = max(at, l.reach(b.begin))
			break
		}
	}
	if next := l.next(l.floor(at)); at >= next-l.Spec.Guard {
		return next
	}
	return at
}
