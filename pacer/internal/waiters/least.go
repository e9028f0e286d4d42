package waiters

import (
	"math/bits"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// The slots of windows come in groups: the time between the last ones is no estimate of the time to the next ones. So a call behind others
// is refused only if the limits cannot admit all of them any earlier, whatever was charged before. Only slots that are given back can make
// it earlier.

// hasGroups reports whether slots of some limits come in groups, and not at one distance.
func hasGroups(limits []store.Limit) bool {
	for i := range limits {
		if s := &limits[i].Spec; s.Algorithm == policies.Window || s.Most > 0 {
			return true
		}
	}
	return false
}

// least returns how long a call waits at least that has so many waiting calls before it.
func (s *Waiters) least(q *queue, c *Call, now time.Time, ahead int) time.Duration {
	from := s.storeTime(now)
	if from == 0 {
		return 0
	}
	at := from
	for i := range q.limits {
		l, cost := &q.limits[i].Spec, c.request[0].CostOf(i)
		each := int64(1) << (bits.Len64(uint64(cost)) - 1) //nolint:gosec // a cost is positive; no other call of the queue costs less
		at = max(at, earliest(l, from, from, each*int64(len(q.held)+ahead)+cost))
		if q.last.At > from && q.lastCost > 0 && c.request[0].Costs == nil && cost >= q.lastCost {
			before := ahead
			if q.last.OK { // the last call that was answered has its slot, and is not in the queue
				before++
			}
			at = max(at, earliest(l, from, q.last.At, each*int64(before)+cost))
		}
	}
	return at.Sub(from)
}

// earliest returns an instant before which the last of so many units cannot start, if the first does not start before from.
func earliest(l *policies.Spec, now, from store.Instant, units int64) store.Instant {
	after := func(n, each int64) store.Instant {
		return from + store.Instant(min(max(0, n), policies.MaxPeriod.Microseconds()/each)*each)
	}
	switch {
	case l.Algorithm == policies.GCRA && l.Most > 0:
		return max(after(units-l.Limit, l.Interval), after((units-1)/l.Most, l.Within))
	case l.Algorithm == policies.GCRA:
		return after(units-l.Limit, l.Interval)
	case l.Algorithm != policies.Window:
		return from
	}
	n := (units - 1) / l.Limit // full windows
	switch {
	case n == 0:
		return from
	case l.Calendar != nil:
		bounds := l.Calendar.Bounds(int64(now), int64(now.Add(store.Forever)))
		for i := range bounds {
			if bounds[i] > int64(from) {
				return store.Instant(bounds[min(int64(i)+n, int64(len(bounds)))-1])
			}
		}
		return from
	case l.Buckets == 0:
		return after(n, l.Interval) - from%store.Instant(l.Interval)
	}
	return after(n, l.Interval*l.Buckets)
}
