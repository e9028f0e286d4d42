package charges

import (
	"cmp"
	"slices"
	"sort"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Bounds of what is remembered of an account.
const (
	// maxSpans bounds the intervals of a rate. When there are more, the earliest become one.
	maxSpans = 256
	// maxBuckets bounds the buckets of a window, of the latest: more than any policy counts.
	maxBuckets = 2 * specs.MaxBuckets
)

// bucketUse is a bucket and what it holds: at least, of this process, and at the last heartbeat.
type bucketUse struct{ bucket, n, own, held int64 }

// buckets are those of a window, in order.
type buckets []bucketUse

// at returns the use of a bucket, and makes an entry if there is none.
func (b *buckets) at(bucket int64) *bucketUse {
	i, found := slices.BinarySearchFunc(*b, bucket, func(h bucketUse, bucket int64) int { return cmp.Compare(h.bucket, bucket) })
	if !found {
		*b = slices.Insert(*b, i, bucketUse{bucket: bucket})
		if len(*b) > maxBuckets {
			*b, i = slices.Delete(*b, 0, 1), max(0, i-1)
		}
	}
	return &(*b)[i]
}

// find returns a bucket; nil if nothing is known of it.
func (b *buckets) find(bucket int64) *bucketUse {
	if i := slices.IndexFunc(*b, func(h bucketUse) bool { return h.bucket == bucket }); i >= 0 {
		return &(*b)[i]
	}
	return nil
}

// spans are intervals [from, to) of virtual time, in order, disjoint.
type spans []span

type span struct{ from, to int64 }

// past returns how many of the spans are over at an instant.
func (s spans) past(now int64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].to > now })
}

// after returns the spans without those that are past.
func (s spans) after(now int64) spans { return slices.Delete(s, 0, s.past(now)) }

// with returns the spans and one more, which may meet others.
func (s spans) with(from, to int64) spans {
	if from >= to {
		return s
	}
	first := s.past(from - 1)
	last := first
	for ; last < len(s) && s[last].from <= to; last++ {
		from, to = min(from, s[last].from), max(to, s[last].to)
	}
	return slices.Replace(s, first, last, span{from, to})
}

// without returns the spans without an interval.
func (s spans) without(from, to int64) spans {
	if from >= to {
		return s
	}
	first, kept := s.past(from), make([]span, 0, 2)
	last := first
	for ; last < len(s) && s[last].from < to; last++ {
		if one := s[last]; one.from < from {
			kept = append(kept, span{one.from, from})
		}
		if one := s[last]; to < one.to {
			kept = append(kept, span{to, one.to})
		}
	}
	return slices.Replace(s, first, last, kept...)
}

// meets reports whether one of the spans overlaps an interval.
func (s spans) meets(from, to int64) bool {
	i := s.past(from)
	return from < to && i < len(s) && s[i].from < to
}

// A spending is what this process spent of one limit without the store, in numbers that add up.
type spending struct {
	limit    store.Limit
	paused   store.Instant // that the upstream reported
	counts   buckets       // of a window
	each     int64         // of a rate: how long one call takes of the share
	from, to int64         // of a rate: the virtual time of the calls that still count
	extra    int64         // of a rate: calls that cost more than they were charged
}

// add counts a call that has gone, by its charge to a share.
func (s *spending) add(share *specs.Spec, c store.Charge, now int64) {
	if share.Algorithm == specs.Window {
		s.counts.at(c.From).n += c.To
		return
	}
	s.each = share.Interval
	s.take(c.From, c.To, now)
}

// take adds virtual time of a rate. It begins anew if none counts any more. The calls since the share was last idle are next to each other, so
// two numbers are enough.
func (s *spending) take(from, to, now int64) {
	if s.from == s.to || s.to <= now-s.limit.Spec.Within {
		s.from = from
	}
	s.from, s.to = min(s.from, from), max(s.to, to)
}

// addMore counts that calls cost so much more than they were charged: those of a window in a bucket.
func (s *spending) addMore(bucket, n int64) {
	if s.limit.Spec.Algorithm == specs.Window {
		s.counts.at(bucket).n += n
	} else {
		s.extra += n
	}
}

// due returns what the store must charge: for a window the count of each bucket, for a rate as many calls as still have an effect, and for
// an allowance that nothing is left. The store adds them to those of others, which may have gone in the same instant; the last call of a
// process without others counts from when it went.
//
// A call of a rate that has some of its interval left counts as a whole one. So what n processes report is at least what the upstream counts:
// its burst drains n times as fast as one of theirs. If there are more processes than calls in a burst, that would leave up to n calls idle,
// and only a call that is less than one emission interval old counts. The note has how long each call takes, for StillDue.
func (s *spending) due(now int64) []store.Note {
	notes := pauseOf(s.paused, 0, store.Instant(now))
	for _, h := range s.counts {
		if h.n > 0 {
			notes = append(notes, store.Note{Kind: store.NoteSettle, Charge: store.Charge{From: h.bucket}, Actual: h.n})
		}
	}
	spec, more := &s.limit.Spec, s.extra
	if from, to := max(s.from, now-spec.Within), min(s.to, now); spec.Within > 0 && from < to { // it may be in a window still
		notes = append(notes, claim(0, from, to))
	}
	if left := s.to - max(s.from, now); left > 0 {
		more += left / s.each
		last := now + left%s.each - s.each // began then
		switch {
		case s.each == spec.Interval:
			notes = append(notes, claim(0, last, last+s.each))
		case left%s.each > 0 && (s.each <= spec.Limit*spec.Interval || last+spec.Interval > now):
			more++
		}
	}
	if more > 0 {
		notes = append(notes, store.Note{Kind: store.NoteSettle, Value: s.each, Actual: more})
	}
	return notes
}

// Adds reports whether a note adds a charge: to heed it twice would charge that twice.
func Adds(n *store.Note) bool { return n.Kind == store.NoteSettle && n.Actual > n.Cost }
