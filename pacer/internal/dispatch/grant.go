package dispatch

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
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
	if c.queue == nil || !c.queue.passes || c.grant[0].Local || !s.Echoes() {
		return leases.Passing{Flow: c.request[0].Flow, Since: c.requested, Assume: c.assumed}
	}
	p := leases.Passing{Queue: c.queue.hash, Since: c.requested, Part: 0.5 + rand.Float64()}
	if c.choices != nil {
		p.Limits = c.choices.limits
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
	limits := slices.DeleteFunc(slices.Clone(c.standing()), func(l store.Limit) bool { return !l.Spec.HasQueue() })
	if len(limits) > 0 {
		s.Leases.Leave(c.request[0].ID, limits)
	}
}

// A storeClock translates a store's time of decision to this machine's monotonic clock. A decision falls between the request and the answer.
// To be never early, one would count from the answer; but then a slow answer makes its call late, and brings it closer to the next. So the
// distance of the clocks that a fast answer showed still holds.
//
// The store's clock decides, in microseconds. The store answers how long to wait, and the process sleeps that long on its monotonic clock;
// its own time of day does not matter. All rounding is against the caller. Store time does not go back by more than a second, even if the
// store's clock does, while one process remembers: it goes on, a 64th slower, until the clock has caught up. If the clock goes forward,
// charges seem older: one more burst, and one more count of a window, may go.
type storeClock struct {
	mu    sync.Mutex
	base  time.Time     // by this machine
	epoch store.Instant // by the store
	ahead time.Duration // since base and epoch, this machine has counted more than the store by at most this
	at    time.Time     // when ahead was measured
}

// drift is how much slower than this machine's a store's clock may run, as a divisor: 500 ppm (RFC 5905, section 7.1,
// the tolerance of NTP).
const drift = 2000

// estimate returns about what the store's clock shows at a time; 0 if nothing is known of it.
func (c *storeClock) estimate(at time.Time) store.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return 0
	}
	return c.epoch + store.Instant((at.Sub(c.base) - c.ahead).Microseconds())
}

// latest returns the latest time at which the store's clock can have shown now, if it did so between began and
// answered.
func (c *storeClock) latest(now store.Instant, began, answered time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		c.base, c.epoch = answered, now
	}
	passed := now.Sub(c.epoch)
	most := answered.Sub(c.base) - passed
	ahead := c.ahead + answered.Sub(c.at)/drift
	if c.at.IsZero() || most <= ahead || ahead < began.Sub(c.base)-passed { // in the last case the store's clock has stepped
		c.ahead, c.at, ahead = most, answered, most
	}
	return c.base.Add(passed + ahead)
}
