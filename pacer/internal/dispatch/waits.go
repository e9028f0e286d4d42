package dispatch

import (
	"context"
	"errors"
	"math/bits"
	"time"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// waitsFor returns the index of the limit that the call waits for; −1 if it waits for none.
func (c *Call) waitsFor() int {
	if i := int(c.binding.binds); i < len(c.stack.Limits) {
		return max(-1, i)
	}
	return -1
}

// waited returns for how long the call has waited; 0 if it did not.
func (s *Dispatcher) waited(c *Call) time.Duration {
	if c.since == 0 {
		return 0
	}
	return time.Since(s.made) - c.since
}

// late returns how much later than due the call went; 0 if it did not have to wait for a slot. Its slot no longer changes.
func (s *Dispatcher) late(c *Call) time.Duration {
	if c.grant[0].Wait() <= 0 {
		return 0
	}
	return max(0, c.went-c.due.Sub(s.made))
}

// waits records that the call is about to wait for about that long, and emits an event if the reason is new. The caller holds mu.
func (s *Dispatcher) waits(ctx context.Context, c *Call, now time.Time, wait time.Duration) {
	g, first := &c.grant[0], c.since == 0
	if first {
		c.since = now.Sub(s.made)
	}
	if first || g.Binds != store.BindsNothing { // a call that has its permit, and waits for its slot, waits for the same reason as before
		c.binding = binding{int32(g.Binds), g.Paused > 0} //nolint:gosec // an index into a stack
	}
	if s.Events == nil {
		return
	}
	// The time of a queued call's next poll is of no interest; its position is.
	reason := waitReason{g.At, g.Ahead, c.binding}
	if g.Queued {
		reason.at = 0
	}
	if c.emitted != nil && c.emitted.reason == reason {
		return
	}
	if c.emitted == nil {
		c.emitted = &emitted{since: now}
	}
	i := c.waitsFor()
	c.emitted.reason = reason
	c.emitted.last = Wait{
		Limit: c.limit(i), Cost: c.request[0].CostOf(i), Paused: c.binding.paused, Queued: g.Queued, Ahead: g.Ahead, At: now, For: wait,
	}
	s.Events.Waiting(ctx, &c.emitted.last)
}

// waitDone emits that a call no longer waits, and whether it may go.
func (s *Dispatcher) waitDone(ctx context.Context, c *Call, err error) {
	if s.Events == nil {
		return
	}
	if before := c.emitted; before != nil {
		s.Events.WaitDone(ctx, &before.last, before.since, s.waited(c), err)
	}
	if err == nil {
		s.admitted(ctx, c)
	} else {
		s.Events.Refused(ctx, err)
	}
}

// admitted emits that a call may go.
func (s *Dispatcher) admitted(ctx context.Context, c *Call) {
	switch {
	case s.Events == nil:
	case c.since == 0:
		s.Events.Admitted(ctx, &c.request[0], c.stack.Limits, nil, 0, s.late(c))
	default:
		s.Events.Admitted(ctx, &c.request[0], c.stack.Limits, c.limit(c.waitsFor()), s.waited(c), s.late(c))
	}
}

// notYet makes the error for the slot in the call's grant, which is too far away. If the call was in the queue, it waited there until some
// time; otherwise that is zero. The caller holds mu, if another goroutine knows the call.
func (c *Call) notYet(until time.Time) *NotYetError {
	g, call := &c.grant[0], &c.request[0]
	ahead, waited := g.Ahead, time.Duration(0)
	if g.Paused > 0 {
		ahead = int64(max(0, g.At.Sub(g.Paused)) / readings.Apart)
	}
	if !until.IsZero() && !c.latest.IsZero() && call.MaxWait < store.Forever {
		waited = max(0, call.MaxWait-c.latest.Sub(until))
	}
	return &NotYetError{
		Wait: Wait{
			Limit: c.limit(g.Binds), Cost: call.CostOf(g.Binds), Paused: g.Paused > 0,
			Queued: g.Queued, Ahead: ahead, For: g.Wait(),
		},
		Until: g.Paused, MaxWait: call.MaxWait, Waited: waited, ByDeadline: c.byDeadline, AtLeast: g.AtLeast, NoShare: g.Binds == store.BindsStore,
	}
}

// notYetIn is notYet for a call in a queue, whose slot is about this far away. The caller holds mu.
func (s *Dispatcher) notYetIn(q *queue, c *Call, now time.Time, wait time.Duration) *NotYetError {
	g := &c.grant[0]
	g.Binds, g.Paused, g.Queued = q.last.Binds, q.last.Paused, false
	g.Now, g.At = 0, store.Instant(wait.Microseconds())
	if g.Paused < s.storeTime(now) {
		g.Paused = 0
	}
	r := c.notYet(now)
	r.About = true
	return r
}

// askFor returns how many of the waiting calls to request now; if none, when to try again at the earliest.
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

// least returns a lower bound of the wait of a call with ahead waiting calls before it.
func (s *Dispatcher) least(q *queue, c *Call, now time.Time, ahead int) time.Duration {
	from := s.storeTime(now)
	if from == 0 {
		return 0
	}
	at := from
	for i := range q.limits {
		l, cost := &q.limits[i].Spec, c.request[0].CostOf(i)
		each := int64(1) << (bits.Len64(uint64(cost)) - 1) //nolint:gosec // a cost is positive; no other call of the queue costs less
		at = max(at, earliest(l, from, from, each*int64(len(q.out)+ahead)+cost))
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

// earliest returns a lower bound of when the last of some units starts, if the first does not start before from.
func earliest(l *specs.Spec, now, from store.Instant, units int64) store.Instant {
	after := func(n, each int64) store.Instant {
		return from + store.Instant(min(max(0, n), specs.MaxPeriod.Microseconds()/each)*each)
	}
	switch {
	case l.Algorithm == specs.GCRA && l.Most > 0:
		return max(after(units-l.Limit, l.Interval), after((units-1)/l.Most, l.Within))
	case l.Algorithm == specs.GCRA:
		return after(units-l.Limit, l.Interval)
	case l.Algorithm != specs.Window:
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

// tooFar returns the error of a call with this many calls before it, if it cannot go in time by what is known now. The caller holds mu.
func (s *Dispatcher) tooFar(q *queue, c *Call, now time.Time, ahead int) error {
	// How soon a queue of the store moves is unknown, and so is when a process without a share has one.
	if c.latest.IsZero() || q.deferred || q.window.Gap() == 0 && !q.groups || q.last.Binds == store.BindsStore {
		return nil
	}
	wait := s.estimate(q, c, now, ahead)
	if wait <= c.latest.Sub(now) {
		return nil
	}
	return s.notYetIn(q, c, now, wait)
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
		return c.notYet(time.Time{}) // this error explains why it had to wait so long
	case cause == errTimeout: //nolint:errorlint // as it was made
		return nil // it has its slot
	}
	return cause
}
