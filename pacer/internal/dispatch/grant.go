package dispatch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

// granted applies a grant: a slot, or a position in the store's queue. The caller holds mu, if another goroutine knows the call.
func (s *Dispatcher) granted(c *Call) {
	c.narrow()
	g := &c.grant[0]
	s.dropLease(c)
	c.due = s.dueTime(c)
	if c.request[0].ID != 0 && c.request[0].Since == 0 {
		c.request[0].Since = g.Now
	}
	if g.Queued {
		if c.woken { // it was woken while the request was under way
			c.due = time.Now()
		}
		return
	}
	if c.request[0].ID != 0 && c.hasPermits() {
		c.lease = s.Leases.Take(c.request[0].ID, c.stack.Limits, g.At, c.requested, s.passing(c))
	}
}

// set copies a grant, with its charges in the room that there is.
func set(to, g *store.Grant) {
	charges := append(to.Charges[:0], g.Charges...) //nolint:gocritic // the grant's own room
	*to = *g
	to.Charges = charges
}

// dueTime returns when to go by this machine's monotonic clock: at the slot, and within its slack a little later, so that calls that become
// due together do not go together. It counts from the latest possible time of the store's decision, and so is never early. A call that need
// not wait was due at its request.
func (s *Dispatcher) dueTime(c *Call) time.Time {
	wait := c.grant[0].Wait()
	if wait <= 0 {
		return c.requested
	}
	decided := time.Now()
	if !s.Direct {
		decided = s.clock.latest(c.grant[0].Now, c.requested, decided)
	}
	most := min(s.Jitter, c.grant[0].Slack)
	if !c.latest.IsZero() {
		most = min(most, c.latest.Sub(decided)-wait)
	}
	if most > 0 {
		wait += rand.N(most + 1)
	}
	return decided.Add(wait)
}

// dropLease forgets the permits of a call that is about to get others, or none. The caller holds mu, if another goroutine knows the
// call.
func (s *Dispatcher) dropLease(c *Call) {
	s.Leases.Forget(c.lease)
	c.lease = nil
}

// passing returns what the lease of a call that has got its permits needs to be passed on. The caller holds mu, if another goroutine
// knows the call.
func (s *Dispatcher) passing(c *Call) leases.Passing {
	p := leases.Passing{Flow: c.request[0].Flow, Since: c.requested, Assume: c.assumed}
	if c.queue != nil && c.queue.passes && !c.grant[0].Local && s.Echoes() {
		p.Queue, p.Part = c.queue.hash, 0.5+rand.Float64()
		if p.Limits = c.stack.Limits; c.choices != nil {
			p.Limits = c.choices.limits
		}
	}
	return p
}

// sleep makes a call without a slot poll d after now, the time at which the store answered a request that began at began. The caller holds
// mu.
func (s *Dispatcher) sleep(c *Call, binds int, now store.Instant, began time.Time, d time.Duration) {
	c.grant[0] = store.Grant{Queued: true, Binds: binds, Now: now, At: now.Add(max(0, d)), Charges: c.grant[0].Charges[:0]}
	c.requested = began
	s.granted(c)
}

// retry makes a call poll now, if it is queued. The caller holds mu.
func (c *Call) retry() {
	if c.state == reserved && c.moving != nil {
		c.woken = true
	}
	if c.state != reserved || c.moving != nil || !c.grant[0].Queued {
		return
	}
	c.due = time.Now()
	c.signal()
}

// asks returns the request for a call that goes from a time on.
func (c *Call) asks(now, from time.Time) store.Call {
	call := c.request[0]
	call.NotBefore = max(0, from.Sub(now))
	if !c.latest.IsZero() {
		call.MaxWait = max(0, c.latest.Sub(now))
	}
	return call
}

// asksAgain reports whether the call has to poll once more before it may go, and when.
func (c *Call) asksAgain() (at time.Time, again bool) {
	if !c.grant[0].OK {
		return c.due, true
	}
	if c.request[0].ID == 0 {
		return time.Time{}, false
	}
	return c.due.Add(-c.set.way.Lead()), !c.hasPermits()
}

// cancelAll gives grants of several stacks back. Grants that cannot be given back are lost. A member bounds its requests by itself: they
// serve other callers, too.
func (s *Dispatcher) cancelAll(ctx context.Context, batches []store.Batch) {
	ctx = context.WithoutCancel(ctx)
	if s.Member != nil {
		_ = s.Member.CancelAll(ctx, batches)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	for i := range batches {
		telemetry.Guard("a store", func() { _ = s.Store.Cancel(ctx, batches[i].Stack, batches[i].Grants) })
	}
}

// leaveStoreQueue gives up a position in the store's queue.
func (s *Dispatcher) leaveStoreQueue(c *Call) {
	var limits []store.Limit
	var places []store.Note
	call := &c.request[0]
	for i, l := range c.stack.Limits {
		if !l.Spec.HasQueue() || !c.mayStandFor(i) {
			continue
		}
		limits, places = append(limits, l), append(places, call.Left(i))
	}
	if len(limits) > 0 {
		s.Leases.Leave(call.ID, limits, places)
	}
}
