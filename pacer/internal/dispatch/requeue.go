package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// maxMoving is how many calls give back their slots before later calls do. They never get the slots of later ones, so the first calls of a
// long queue do not wait until all others have given theirs back.
const maxMoving = MaxBatch

// requeue gives back the slots of caught calls, and puts the calls back at their positions in the queues of their stacks. So their new slots
// lie behind a pause, in order of arrival. If calls must be further apart than before, or are bound anew, the first may get the slots of the
// last: then all give back (allFirst) before the first reserves.
//
// A change that is lost on the way to a process costs a refusal, never a wrong wait: after a broken connection the process reads the pauses
// (see catchUp), and the next heartbeat brings resumptions.
func (s *Dispatcher) requeue(ctx context.Context, caught []*Call, allFirst bool) {
	ctx = context.WithoutCancel(ctx)
	n := maxMoving
	if allFirst {
		n = max(1, len(caught))
	}
	for some := range slices.Chunk(caught, n) {
		s.giveUpSlots(ctx, some)
		s.lock()
		for i, c := range slices.Backward(some) { // each goes before the last
			s.askAnew(c)
			c.grant[0].Ahead = int64(i)
			c.moved()
		}
		for _, c := range some {
			if c.inQueue() {
				s.look(c.queue)
			}
		}
		s.unlock()
	}
}

// requeueAlone is requeue for a caught call whose owner is in this goroutine, and may give up meanwhile.
func (s *Dispatcher) requeueAlone(ctx context.Context, c *Call) {
	s.busy.Go(func() { s.requeue(ctx, []*Call{c}, false) })
}

// giveUpSlots gives back what caught calls have: slots, or positions in the store's queue. A slot that cannot be given back is lost, but
// the call must still reserve again.
func (s *Dispatcher) giveUpSlots(ctx context.Context, caught []*Call) {
	var old []store.Batch
	for _, c := range caught {
		switch g := &c.grant[0]; {
		case c.lease != nil && !g.OK: // see settlePermits
		case g.OK:
			if n := len(old); n == 0 || !old[n-1].Stack.Same(&c.stack) {
				old = append(old, store.Batch{Stack: c.stack})
			}
			last := &old[len(old)-1]
			last.Grants = append(last.Grants, *g)
		case g.Queued:
			s.leaveStoreQueue(c)
		}
	}
	s.cancelAll(ctx, old)
}

// catchAll catches the calls that wait, are not moving, and for which a condition holds, in the order of their slots. The caller holds mu.
func (s *Dispatcher) catchAll(is func(*Call) bool) (caught []*Call) {
	now := time.Now()
	for c := range s.waiting {
		if c.isAsleep() && is(c) {
			s.catchInPlace(c, now)
			caught = append(caught, c)
		}
	}
	return inOrder(caught)
}

// local returns the calls with slots to come that this process granted locally, caught. They give them up for slots of the fleet, or for
// places in its queue. A call that cannot have one in time is refused: its own is one that others may get.
func (s *Dispatcher) local() []*Call {
	s.lock()
	defer s.unlock()
	return s.catchAll(func(c *Call) bool { return s.exchangeable(&c.grant[0]) })
}

// catchInPlace catches a call, and bounds the slot that it gets for a local one.
func (s *Dispatcher) catchInPlace(c *Call, now time.Time) {
	if slot := c.requested.Add(c.grant[0].Wait()); s.exchangeable(&c.grant[0]) && !s.mayBeSooner(c, slot, now) {
		c.notBefore = slot
	}
	c.catch()
}

// mayBeSooner reports whether a call that holds a local slot may have an earlier one of the fleet. As a rule it may not: others count on
// theirs, and may be about to go. A call in the window of a queue that a rate makes wait may, if its slot is far: if every process kept to its
// turns, there would be too little room between them for the calls of others.
func (s *Dispatcher) mayBeSooner(c *Call, slot, now time.Time) bool {
	l := c.limit(c.grant[0].Binds)
	return c.queue != nil && l != nil && l.Spec.Algorithm == specs.GCRA && slot.After(now.Add(s.way.Reach()))
}

// askAgain polls once more, for a call that is marked as moving.
func (s *Dispatcher) askAgain(ctx context.Context, c *Call) {
	s.lock()
	if c.isStale() {
		s.unlock()
		s.requeue(ctx, []*Call{c}, false)
		return
	}
	old, held, first, hasLease := c.stack, c.widened(), c.preferred(), c.lease != nil
	began, reach := time.Now(), s.way.Reach()
	c.known = s.changes.Load()
	before, later := s.neighbours(c)
	yields := before.Sub(began) > reach
	var theirs []store.Charge
	if later != nil {
		theirs, later.known = later.widened(), c.known
		later.catch()
	}
	c.widen()
	s.owed.settleUp(c)
	s.unlock()
	c.request[0].Reach = s.way.Lead()
	calls, grants := [1]store.Call{c.asks(began, c.notBefore)}, [1]store.Grant{}
	call := &calls[0]
	call.First = first
	most := s.farthest(c.queue)
	if yields {
		most = reach
	}
	call.MaxWait = min(call.MaxWait, most)
	ctx = context.WithoutCancel(ctx)
	switch g := &c.grant[0]; {
	case !g.OK:
		call.Held = theirs
	case g.Local: // the store did not grant it and cannot take it back
		call.Slot = g.At
		_ = s.Store.Cancel(ctx, old, c.grant[:])
	default:
		call.Slot, call.Held = g.At, held
	}
	err := storeError(store.ErrUnreachable) // if the store panics, or a hook of its client
	defer func() {
		s.lock()
		defer s.unlock()
		g := &grants[0]
		if later != nil {
			d := time.Duration(0)
			if !g.Queued {
				d = g.Wait() - reach
			}
			s.sleep(later, later.grant[0].Binds, g.Now, began, d)
			later.moved()
		}
		had := s.takePermits(c)
		if err == nil && most < store.Forever && !g.OK && !g.Queued && (c.latest.IsZero() || g.Wait() <= c.latest.Sub(began)) {
			d := before.Sub(began) - reach
			if !yields {
				d = s.poll(c.queue, g)
			}
			s.sleep(c, g.Binds, g.Now, began, d)
		} else {
			s.answer(c, call, g, began, err)
		}
		s.settlePermits(c, had)
		c.moved()
		c.woken = false
		if q := c.queue; q != nil {
			s.passIdle(q)
		}
	}()
	err = s.reserve(ctx, &c.stack, calls[:], grants[:], hasLease)
}

// neighbours returns the furthest slot of the calls before one that polls because it is queued for a permit, and the first call after it
// that sleeps until its slot and has no permits yet. The caller holds mu.
//
// If permits are short, slots without permits are in the way: a call that gets a permit may go at once, but not within a limit's interval
// before such a slot. So it takes the place of the call after it, whose slot is given back with the request, and which reserves again. If a
// call before has a far slot, permits are not short. A slot that is even further is not worth holding: the call sleeps in the process until
// the slot of the one before is near.
func (s *Dispatcher) neighbours(c *Call) (before time.Time, later *Call) {
	q := c.queue
	if q == nil || !q.inOrder || !c.grant[0].Queued || c.request[0].AnyOf != nil {
		return before, nil
	}
	after := false
	for _, o := range q.out {
		switch {
		case o == c:
			after = true
		case !after && (o.moving != nil || s.outdated(o, time.Now())): // nobody knows yet where its slot will be
		case !after:
			before = o.furthest(before)
		case s.lacksPermits(o):
			return before, o
		}
	}
	return before, nil
}

// lacksPermits reports whether a call sleeps until its slot and has no permits yet. The caller holds mu.
func (s *Dispatcher) lacksPermits(c *Call) bool {
	return c.isAsleep() && c.grant[0].OK && !c.grant[0].Local && !c.hasPermits()
}

// answer applies the store's answer to a call that is moving. The caller holds mu.
func (s *Dispatcher) answer(c *Call, call *store.Call, grant *store.Grant, began time.Time, err error) {
	q := c.queue
	switch {
	case err != nil:
		s.owed.takeBack(c)
		s.end(c, err)
		return
	case unreached(call, grant):
		s.sleep(c, grant.Binds, grant.Now, began, grant.Wait()/2)
	case !grant.OK && !grant.Queued:
		s.owed.takeBack(c)
		c.grant[0] = *grant
		s.end(c, c.notYet(began))
		return
	default:
		c.grant[0], c.requested = *grant, began
		if !s.Direct {
			s.clock.latest(grant.Now, began, time.Now()) // for permits that are passed on
		}
		s.granted(c)
	}
	if q != nil {
		if q.deferred && (grant.Queued || grant.Wait() > 0) {
			q.last = store.Grant{Binds: grant.Binds, Paused: grant.Paused}
		}
		s.look(q) // its slot may be nearer than it was
	}
}

// later runs a function for calls that wait, after those that were passed to it before, in a goroutine that Drain waits for: a goroutine that
// brings news need not wait until thousands have moved. With a store in memory it takes no time, and runs at once.
func (s *Dispatcher) later(do func()) {
	s.lock()
	now := s.Member == nil || s.IsClosed()
	if !now {
		s.moves.Add(do)
	}
	s.unlock()
	if now {
		do()
	}
}
