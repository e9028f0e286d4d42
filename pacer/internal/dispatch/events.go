package dispatch

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
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

// late returns how much later than it was due the call went; 0 if it had not to wait for a slot. It had its slot by then, which does not
// change any more.
func (s *Dispatcher) late(c *Call) time.Duration {
	if c.grant[0].Wait() <= 0 {
		return 0
	}
	return max(0, c.went-c.due.Sub(s.made))
}

// waits records that the call is about to wait for a given time, as things are, and emits that if what it waits for has changed. The
// caller holds mu.
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
	// When a queued call asks again is of no interest; its position is.
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

// emitTaken counts and emits what goes.
func (s *Dispatcher) emitTaken(ctx context.Context, all store.Call, stack *store.Stack, at store.Instant) {
	if s.Meter.IsOn() {
		s.Meter.Add(stack.Limits, &all, at, store.BindsNothing, 0)
	}
	if s.Events != nil {
		s.Events.Admitted(ctx, &all, stack.Limits, nil, 0, 0)
	}
}

// notYet makes the error for the slot in the call's grant, which is too far away. The caller holds mu, if another goroutine knows the
// call.
func (s *Dispatcher) notYet(c *Call) error { return s.refusal(c) }

// notYetAt is notYet for a call that was in the queue until a request carried it, which began at a time.
func (s *Dispatcher) notYetAt(c *Call, began time.Time) error { return s.refusalAt(c, began) }

func (s *Dispatcher) refusal(c *Call) *NotYetError {
	g, call := &c.grant[0], &c.request[0]
	ahead := g.Ahead
	if g.Paused > 0 {
		ahead = int64(max(0, g.At.Sub(g.Paused)) / readings.Apart)
	}
	return &NotYetError{
		Wait: Wait{
			Limit: c.limit(g.Binds), Cost: call.CostOf(g.Binds), Paused: g.Paused > 0,
			Queued: g.Queued, Ahead: ahead, For: g.Wait(),
		},
		Until: g.Paused, MaxWait: call.MaxWait, ByDeadline: c.byDeadline, AtLeast: g.AtLeast, NoShare: g.Binds == store.BindsStore,
	}
}

func (s *Dispatcher) refusalAt(c *Call, began time.Time) *NotYetError {
	r := s.refusal(c)
	if !c.latest.IsZero() && c.request[0].MaxWait < store.Forever {
		r.Waited = max(0, c.request[0].MaxWait-c.latest.Sub(began))
	}
	return r
}

// refusalIn returns why a call does not go whose slot is about this far away. The caller holds mu.
func (s *Dispatcher) refusalIn(q *queue, c *Call, now time.Time, wait time.Duration) *NotYetError {
	g := &c.grant[0]
	g.Binds, g.Paused, g.Queued = q.last.Binds, q.last.Paused, false
	g.Now, g.At = 0, store.Instant(wait.Microseconds())
	if g.Paused < s.storeTime(now) {
		g.Paused = 0
	}
	r := s.refusalAt(c, now)
	r.About = true
	return r
}
