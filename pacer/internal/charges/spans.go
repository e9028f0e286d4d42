package charges

import (
	"cmp"
	"slices"
	"sort"

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
