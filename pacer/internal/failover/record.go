package failover

import (
	"slices"
	"sort"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A process remembers the store's accounts. It reports them to a store that has forgotten them, and a process that has lost the store
// starts its own grants after earlier ones. The memory has a bounded number of keys, and a bounded size for each.
const (
	// maxRecords bounds the keys that a process remembers; the next ones push out others.
	maxRecords = 1 << 16
	// maxSpans bounds the intervals of a rate that are remembered. When there are more, the earliest become one.
	maxSpans = 256
	// maxBuckets bounds the buckets of a window that are remembered, of the latest: more than any policy counts.
	maxBuckets = 2 * specs.MaxBuckets
)

// A record is what is known of one limit's account, as the fleet's store keeps it.
type record struct {
	limit  store.Limit
	spans  spans       // of a rate: virtual time that is taken
	own    spans       // the part of it that this process was granted and has not given back
	counts []bucketUse // of a window: what buckets hold at least, in order
	paused store.Instant
	tail   int64 // of a rate: where the last interval that was ever taken ended
	asOf   int64 // when the store last answered about it
	reset  int64 // when it was forgotten on purpose: what was granted before means nothing
	seeded int   // the absence for which the local account knows it
	ahead  int64 // how far ahead of the store's time the last slots were that this process was granted; of a rate, those that it made wait
	each   int64 // of a rate that was spent locally: the length of one call
	extra  int64 // of a rate: calls that cost more than they were charged
	held   held  // what the last heartbeat brought
}

// held is what an account held when a heartbeat looked, no matter which process was granted it. A process that loses the store begins by
// it; the store is not reminded of it.
type held struct {
	at      int64
	front   int64       // of a rate: as if all that is taken came first
	counts  []bucketUse // of a window
	permits int64       // that were out
	own     int64       // of them, those of calls of this process
	until   int64       // when the last of their leases runs out
}

// bucketUse is a bucket and what it holds: at least, and of this process.
type bucketUse struct{ bucket, n, own int64 }

// spans are intervals [from, to) of virtual time, in order, disjoint.
type spans []span

type span struct{ from, to int64 }

// after returns the spans without those that are past.
func (s spans) after(now int64) spans {
	return slices.Delete(s, 0, sort.Search(len(s), func(i int) bool { return s[i].to > now }))
}

// with returns the spans and one more, which may meet others.
func (s spans) with(from, to int64) spans {
	if from >= to {
		return s
	}
	first := sort.Search(len(s), func(i int) bool { return s[i].to >= from })
	last := first
	for ; last < len(s) && s[last].from <= to; last++ {
		from, to = min(from, s[last].from), max(to, s[last].to)
	}
	return slices.Replace(s, first, last, span{from, to})
}

// without returns the spans without an interval.
func (s spans) without(from, to int64) spans {
	first := sort.Search(len(s), func(i int) bool { return s[i].to > from })
	last := first
	var kept [2]span
	n := 0
	for ; last < len(s) && s[last].from < to; last++ {
		if one := s[last]; one.from < from {
			kept[n] = span{one.from, from}
			n++
		}
		if one := s[last]; to < one.to {
			kept[n] = span{to, one.to}
			n++
		}
	}
	if first == last || from >= to {
		return s
	}
	return slices.Replace(s, first, last, kept[:n]...)
}

// meets reports whether one of the spans overlaps an interval.
func (s spans) meets(from, to int64) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].to > from })
	return from < to && i < len(s) && s[i].from < to
}

// take adds an interval, and forgets what is past. If the windows of the rate are exact, it is not past while it is in one.
func (t *record) take(from, to, now int64) {
	t.tail = max(t.tail, to)
	past := now - t.limit.Spec.Within
	t.spans = t.spans.after(past)
	if to <= past {
		return
	}
	if t.spans = t.spans.with(from, to); len(t.spans) > maxSpans {
		t.spans[1].from = t.spans[0].from
		t.spans = slices.Delete(t.spans, 0, 1)
	}
}

// reached notes how far ahead a slot is that the store granted: of a rate, if it made the call wait, which is limit j of its stack.
func (t *record) reached(g *store.Grant, j int) {
	if t.limit.Spec.Algorithm == specs.Window || g.Binds == j {
		t.ahead = max(int64(g.At.Sub(g.Now)/time.Microsecond), t.ahead-t.ahead/8)
	}
}

// front returns the end of what is taken from now on without a break; if nothing is, the end of the last interval.
func (t *record) front(now int64) int64 {
	i := sort.Search(len(t.spans), func(i int) bool { return t.spans[i].to > now })
	if i == len(t.spans) || t.spans[i].from > now {
		return min(t.tail, now)
	}
	return t.spans[i].to
}

// length returns how much of the intervals is still to come.
func (t *record) length(now int64) int64 {
	sum := int64(0)
	for _, s := range t.spans {
		sum += max(0, s.to-max(s.from, now))
	}
	return sum
}

// bucket returns the use of a bucket, and makes an entry if there is none.
func (t *record) bucket(b int64) *bucketUse {
	i, found := slices.BinarySearchFunc(t.counts, b, func(h bucketUse, b int64) int { return int(max(-1, min(1, h.bucket-b))) })
	if !found {
		t.counts = slices.Insert(t.counts, i, bucketUse{bucket: b})
		if len(t.counts) > maxBuckets {
			t.counts = slices.Delete(t.counts, 0, 1)
			i = max(0, i-1)
		}
	}
	return &t.counts[i]
}

// find returns a bucket; nil if nothing is known of it.
func (t *record) find(b int64) *bucketUse {
	for i := range t.counts {
		if t.counts[i].bucket == b {
			return &t.counts[i]
		}
	}
	return nil
}

// over returns when the record means nothing any more, as seen by its policy; a little later for calendars.
func (t *record) over() int64 {
	ends := max(int64(t.paused), t.held.until, t.held.front)
	if n := len(t.spans); n > 0 {
		ends = max(ends, t.spans[n-1].to+t.limit.Spec.Within)
	}
	for _, counts := range [][]bucketUse{t.counts, t.held.counts} {
		if n := len(counts); n > 0 {
			ends = max(ends, counts[n-1].bucket+(t.limit.Spec.Buckets+2)*t.limit.Spec.Interval)
		}
	}
	return ends
}

// notes returns a record as notes for a store: Limit is index. It is all that is known if the store has forgotten, or else, of a rate, what
// this process was granted itself: if that is still there, so is the rest that others did not give back. A charge in a heartbeat may have
// been given back since. A piece between two intervals that is too short for a call goes with them: a store does not keep it. Of a rate
// with exact windows each start counts.
func (t *record) notes(index int, now store.Instant, forgotten bool) []store.Note {
	var notes []store.Note
	taken, all := t.own, [][]bucketUse{t.counts}
	if forgotten {
		if taken, all = t.spans, append(all, t.held.counts); len(taken) == 0 && t.held.front > t.held.at {
			taken = spans{{t.held.at, t.held.front}}
		}
	}
	for i := 0; i < len(taken); i++ {
		one := taken[i]
		for t.limit.Spec.Most == 0 && i+1 < len(taken) && taken[i+1].from-one.to < t.limit.Spec.Interval {
			i++
			one.to = taken[i].to
		}
		if one.to > int64(now)-t.limit.Spec.Within {
			notes = append(notes, store.Note{Kind: store.NoteClaim, Limit: index, Charge: store.Charge{From: one.from, To: one.to}})
		}
	}
	for _, counts := range all {
		for _, h := range counts {
			if h.n > 0 {
				notes = append(notes, store.Note{Kind: store.NoteClaim, Limit: index, Charge: store.Charge{From: h.bucket, To: h.n}})
			}
		}
	}
	if t.paused > now {
		notes = append(notes, store.Pause(index, t.paused.Sub(now)))
	}
	return notes
}
