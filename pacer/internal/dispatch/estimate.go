package dispatch

import (
	"context"
	"errors"
	"math/bits"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// askFor returns for how many of the waiting calls to ask the store now; if for none, when to try again at the earliest.
func (s *Dispatcher) askFor(q *queue, now time.Time, waiting int) (n int, again time.Duration) {
	return q.window.Ask(s.sinceMade(now), s.sinceMade(q.furthest()), waiting)
}

// estimate returns about how long a call waits that has this many before it.
func (s *Dispatcher) estimate(q *queue, c *Call, now time.Time, ahead int) time.Duration {
	switch {
	case q.deferred:
		return q.inStore.Estimate(len(q.out) + ahead)
	case q.groups:
		return s.least(q, c, now, ahead)
	}
	at := s.sinceMade(now)
	return q.window.Estimate(at, s.sinceMade(q.furthest()), ahead) - at
}

// least returns how long a call waits at least that has so many waiting calls before it.
func (s *Dispatcher) least(q *queue, c *Call, now time.Time, ahead int) time.Duration {
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

// tooFar returns the error of a call that has this many before it, if it could not go in time, as things are. The caller holds mu.
func (s *Dispatcher) tooFar(q *queue, c *Call, now time.Time, ahead int) error {
	// How soon a queue of the store moves is unknown, and so is when a process without a share has one.
	if c.latest.IsZero() || q.deferred || q.window.Gap() == 0 && !q.groups || q.last.Binds == store.BindsStore {
		return nil
	}
	wait := s.estimate(q, c, now, ahead)
	if wait <= c.latest.Sub(now) {
		return nil
	}
	return s.refusalIn(q, c, now, wait)
}

// gaveUp returns why the owner of a call waits no longer; nil if it does.
func (s *Dispatcher) gaveUp(ctx context.Context, c *Call, now time.Time) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.IsClosed():
		return store.ErrClosed
	case !c.latest.IsZero() && !now.Before(c.latest):
		return errTimeout
	}
	return nil
}

// whyNot returns why a waiting call gives up; nil if it does not. The caller holds mu.
func (s *Dispatcher) whyNot(ctx context.Context, c *Call, now time.Time) error {
	cause, queued := s.gaveUp(ctx, c, now), c.grant[0].Queued
	switch {
	case queued && (cause == errTimeout || c.byDeadline && errors.Is(cause, context.DeadlineExceeded)): //nolint:errorlint // as it was made
		return s.notYet(c) // this error tells why it had to wait so long
	case cause == errTimeout: //nolint:errorlint // as it was made
		return nil // it has its slot
	}
	return cause
}
