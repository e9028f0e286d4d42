package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// Reserve charges the earliest slot at which a call may go, and stores it in c, or has the call queued. If it returns an error, nothing
// is charged. The end of the context does not cut a request short: the slot is given back.
func (s *Dispatcher) Reserve(ctx context.Context, c *Call, r *Request) error {
	s.prepare(ctx, c, r)
	if r.WillWait && r.Call.NotBefore == 0 { // a call with a later slot keeps its position by holding the slot
		if goes, err := s.chargeNow(ctx, c, r); err != nil {
			return err
		} else if !goes {
			return s.chargeInOrder(ctx, c)
		}
	} else if err := s.reserve(ctx, &c.stack, c.request[:], c.grant[:], false); err != nil {
		return err
	} else if g := &c.grant[0]; g.OK || g.Queued {
		s.granted(c)
	} else {
		return c.notYet(time.Time{})
	}
	return s.keep(ctx, c)
}

// keep gives the slot of a call back whose answer took too long.
func (s *Dispatcher) keep(ctx context.Context, c *Call) error {
	err := ctx.Err()
	if err == nil && c.byDeadline {
		s.lock()
		if c.due.After(c.latest) && c.grant[0].Wait() > 0 && !c.grant[0].Queued {
			err = c.notYet(time.Time{})
		}
		s.unlock()
	}
	if err != nil {
		s.giveUp(ctx, c)
	}
	return err
}

// Free gives c its requested slot, now or later, without a request to the store: no limit binds the call, and neither does a pause. However
// late the call goes, it keeps the slot.
func (s *Dispatcher) Free(ctx context.Context, c *Call, r *store.Call) error {
	s.prepare(ctx, c, &Request{Call: *r})
	c.free, c.due = true, c.notBefore
	now := s.storeTime(c.requested)
	c.grant[0] = store.Grant{
		Now: now, At: now.Add(r.NotBefore), Slack: store.Forever, Binds: store.BindsNothing, Local: true,
		OK: r.NotBefore <= c.request[0].MaxWait,
	}
	if !c.grant[0].OK {
		return c.notYet(time.Time{})
	}
	return nil
}

// chargeNow charges a call that may go at once, and reports whether it did. A direct store answers in no time, so while no call is
// queued, none is overtaken and there is nothing to share a request with.
func (s *Dispatcher) chargeNow(ctx context.Context, c *Call, r *Request) (goes bool, err error) {
	if !r.Untried || !s.Direct || r.HasQueue || s.Queued() > 0 {
		return false, nil
	}
	most := c.request[0].MaxWait
	c.request[0].MaxWait = 0
	err = s.reserve(ctx, &c.stack, c.request[:], c.grant[:], false)
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

// prepare sets the request.
func (s *Dispatcher) prepare(ctx context.Context, c *Call, r *Request) {
	c.set, c.stack.Upstream, c.stack.Limits, c.requested = s, s.Upstream, r.Limits, time.Now()
	c.binder, c.generation, c.known = r.Binder, r.Generation, s.changes.Load()
	c.arrived, c.tracked, c.came, c.ctx = c.requested, r.Tracked, s.entered.Add(1), ctx
	c.state, c.err = reserved, nil
	c.notBefore = c.requested.Add(min(r.Call.NotBefore, store.Forever))
	call := &c.request[0]
	*call = r.Call
	if r.HasQueue {
		call.ID, call.Reach = store.NewID(), s.way.Lead()
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

// Calls that wait are in a queue of their process, one for each stack, and hold no slot. The first call of the queue makes a request, for
// itself and for those behind it that fit. So ten thousand callers of a process have a few dozen slots between them, and a tenant with one
// call waits behind slots, not behind the queues of others.
//
// Between processes, the order is by window and not by call: the oldest caller of one process may wait for up to H longer than a
// younger one of another. A process with one caller is served as often as one with sixty, while both wait.
//
// Calls whose owner does not wait yet hold their slots from the start, however far away, and so do those with NotBefore: they are in no
// queue. A reservation in the future leaves a gap before it. Accounts remember their gaps, so a later reservation may fill one and never
// delays an earlier one (conservative backfilling, as in batch schedulers). So a tenant with a long queue does not hold up the others.

// chargeInOrder charges the earliest slot for a call when it is the call's turn in the queue. When it returns, the grant is applied:
// see granted.
func (s *Dispatcher) chargeInOrder(ctx context.Context, c *Call) error {
	own, err := s.join(c)
	if err != nil {
		return err
	}
	defer s.busy.Done()
	s.sendOwn(own) //nolint:contextcheck // it has the values of the calls in it
	if err := s.until(ctx, c, s.turn); err != nil {
		return err
	}
	if s.IsClosed() {
		s.giveUp(ctx, c)
		return store.ErrClosed
	}
	return s.keep(ctx, c)
}

// join adds a call to the queue of its stack. If it returns a request, the call is busy: its goroutine sends that.
func (s *Dispatcher) join(c *Call) (own *request, err error) {
	s.lockBound(c)
	defer func() { own = s.unlockFor(func(*request) bool { return c.state == asked }) }()
	s.rebind(c)
	if s.IsClosed() {
		return nil, store.ErrClosed
	}
	q, now := s.queueOf(c), time.Now()
	// The first call behind a slot that is far ahead makes a request, too, if the distance of the next slot is not known yet: it may be too
	// far.
	n, _ := s.askFor(q, now, 1)
	asks := !q.deferred && !s.frozen && !q.asking && len(q.line) == 0 && (n > 0 || q.window.Gap() == 0 && (q.most == 0 || !c.latest.IsZero()))
	if !asks {
		if err := s.tooFar(q, c, now, len(q.line)); err != nil {
			return nil, err
		}
	}
	s.busy.Add(1)
	q.enqueue(c)
	if s.enter(c); asks {
		s.submit(q)
	}
	s.look(q)
	return nil, nil //nolint:nilnil // the request is made when the lock is released
}

// Adopt gives c a slot that was taken away from another call, of this process or another one. A request made at requested, when the process
// knew of known changes, found it still good; the answer came at g.Now. c waits for it like for any other slot, without jitter, but is
// refused if it has to move, such as behind a pause. permits is a call that has the permits which c needs: c has them from now on. It is
// nil if c needs none.
func (s *Dispatcher) Adopt(ctx context.Context, c *Call, r *Request, g *store.Grant, requested time.Time, known int64, permits *Call) {
	r.Call.MaxWait = 0 // it has its slot, gets no jitter, and no other slot will do
	s.prepare(ctx, c, r)
	c.requested, c.notBefore, c.known = requested, requested, known
	s.lock()
	defer s.unlock()
	c.grant[0] = *g
	if permits != nil {
		c.request[0].ID = permits.request[0].ID
		c.stack.Limits = slices.Concat(c.stack.Limits, permits.stack.Limits)
		c.grant[0].Charges = slices.Concat(c.grant[0].Charges, permits.grant[0].Charges)
		if c.request[0].Costs != nil {
			c.request[0].Costs = append(slices.Clip(c.request[0].Costs), slices.Repeat([]int64{permits.request[0].Cost}, len(permits.stack.Limits))...)
		}
		permits.state = givenBack
		s.dropLease(permits)
	}
	s.granted(c)
}
