package waiters

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/store"
)

// A Request is what a call requests.
type Request struct {
	Limits   []store.Limit // that bind it
	Call     store.Call    // but for ID and Reach
	HasQueue bool          // one of the limits has a queue in the store
	WillWait bool          // the owner waits until the call may go: it is queued in the process until its slot is near
	Tracked  bool          // its answer will be reported
	Untried  bool          // the store was not asked yet whether the call may go at once

	Binder     Binder // binds the call anew when other policies hold; nil for one that does not wait
	Generation int64  // of the policies by which it is bound
}

// Reserve charges the earliest slot at which a call may go, and stores it in c, or has the call queued. If it returns an error, nothing
// is charged. The end of the context does not cut a request short: the slot is given back.
func (s *Waiters) Reserve(ctx context.Context, c *Call, r *Request) error {
	s.prepare(ctx, c, r)
	if r.WillWait && r.Call.NotBefore == 0 { // a call that asked for a later slot keeps its position by holding the slot
		if goes, err := s.chargeNow(ctx, c, r); err != nil {
			return err
		} else if !goes {
			return s.chargeInOrder(ctx, c)
		}
	} else if err := s.charge(ctx, c); err != nil {
		return err
	} else if g := &c.grant[0]; g.OK || g.Queued {
		s.granted(c)
	} else {
		return s.notYet(c)
	}
	return s.keep(ctx, c)
}

// keep gives the slot of a call back whose answer took too long.
func (s *Waiters) keep(ctx context.Context, c *Call) error {
	err := ctx.Err()
	if err == nil && s.IsClosed() {
		err = store.ErrClosed
	}
	if err == nil && c.byDeadline && c.due.After(c.latest) && c.grant[0].Wait() > 0 && !c.grant[0].Queued {
		err = s.notYet(c)
	}
	if err != nil {
		_ = s.cancel(ctx, c)
	}
	return err
}

// Free gives c the slot that it asked for, now or later, without asking the store: no limit binds the call, and neither does a pause.
// However late the call goes, it keeps the slot.
func (s *Waiters) Free(ctx context.Context, c *Call, r *store.Call) error {
	s.prepare(ctx, c, &Request{Call: *r})
	c.free, c.due = true, c.notBefore
	now := s.storeTime(c.requested)
	c.grant[0] = store.Grant{
		Now: now, At: now.Add(r.NotBefore), Slack: store.Forever, Binds: store.BindsNothing, Local: true,
		OK: r.NotBefore <= c.request[0].MaxWait,
	}
	if !c.grant[0].OK {
		return s.notYet(c)
	}
	return nil
}

// chargeNow charges a call that may go at once, and reports whether it did. A direct store answers in no time, so while no call is
// queued, none is overtaken and there is nothing to share a request with.
func (s *Waiters) chargeNow(ctx context.Context, c *Call, r *Request) (goes bool, err error) {
	if !r.Untried || !s.Direct || r.HasQueue || s.Queued() > 0 {
		return false, nil
	}
	most := c.request[0].MaxWait
	c.request[0].MaxWait = 0
	err = s.charge(ctx, c)
	c.request[0].MaxWait = most
	if err != nil {
		return false, err
	}
	if !c.grant[0].OK {
		c.grant[0] = store.Grant{Charges: c.room[:0]}
		return false, nil
	}
	s.granted(c)
	return true, nil
}

// prepare sets what the store is asked for.
func (s *Waiters) prepare(ctx context.Context, c *Call, r *Request) {
	c.set, c.stack.Upstream, c.stack.Limits, c.requested = s, s.Upstream, r.Limits, time.Now()
	c.binder, c.generation, c.known = r.Binder, r.Generation, s.changes.Load()
	c.arrived, c.tracked, c.came, c.ctx = c.requested, r.Tracked, s.entered.Add(1), ctx
	c.state, c.err = reserved, nil
	c.notBefore = c.requested.Add(min(r.Call.NotBefore, store.Forever))
	call := &c.request[0]
	*call = r.Call
	if r.HasQueue {
		call.ID, call.Reach = newID(), s.way.Lead()
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left := max(0, deadline.Sub(c.requested)); left < call.MaxWait {
			call.MaxWait, c.byDeadline = left, true
		}
	}
	call.MaxWait = min(call.MaxWait, store.Forever)
	if call.MaxWait < store.Forever {
		c.latest = c.requested.Add(call.MaxWait)
	}
	c.grant[0].Charges = c.room[:0]
}

// charge asks the store for a slot.
func (s *Waiters) charge(ctx context.Context, c *Call) error {
	return s.reserve(ctx, &c.stack, c.request[:], c.grant[:])
}

// granted applies a grant: a slot, or a position in the store's queue. The caller holds mu, if another goroutine knows the call.
func (s *Waiters) granted(c *Call) {
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

// dueTime returns when to go by this machine's monotonic clock: at the slot, and within its slack a little later, so that calls that
// become due together do not go together. It counts from the latest time at which the store can have decided, so that it is never
// early. A call that need not wait was due when it asked.
func (s *Waiters) dueTime(c *Call) time.Time {
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
func (s *Waiters) dropLease(c *Call) {
	s.Leases.Forget(c.lease)
	c.lease = nil
}

// passing returns what the lease of a call that has got its permits needs to be passed on. The caller holds mu, if another goroutine
// knows the call.
func (s *Waiters) passing(c *Call) leases.Passing {
	if c.queue == nil || !c.queue.passes || c.grant[0].Local || !s.Echoes() {
		return leases.Passing{}
	}
	p := leases.Passing{Queue: c.queue.hash, Since: c.requested, Part: 0.5 + rand.Float64()}
	if c.choices != nil {
		p.Limits = c.choices.limits
	}
	return p
}
