package dispatch

import (
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// admit requests slots for the first calls of the queue. If the furthest slot must come within reach first, admit returns in how long that
// is; otherwise 0. The caller holds mu.
func (s *Dispatcher) admit(q *queue) time.Duration {
	if q.asking || s.frozen {
		return 0
	}
	if len(q.line) == 0 {
		q.rest()
		return 0
	}
	now := time.Now()
	if q.deferred {
		again := s.letOut(q, now)
		if again.IsZero() {
			return 0
		}
		return max(1, again.Sub(now))
	}
	n, again := s.askFor(q, now, len(q.line))
	if n > 0 {
		s.submit(q)
		return 0
	}
	return max(1, again-now.Sub(s.made))
}

// A grant cannot be taken back. So some limits are granted only shortly before the slot, and not far in advance as rates and windows are:
// permits (policies.InFlight), because the end of a running call is unknown; and shares of calls of different importance
// (policies.Policy.Lane, policies.Policy.Fair), because later calls must not get only the rest. A call that has to wait for such a limit is
// queued in the store, in order, and is charged nothing: see [store.Grant].Queued. Its stack is deferred.
//
// Calls of a deferred stack leave the queue of the process one by one, for the store's queue or for a slot. As many calls of a process are
// out at a time as are served within twice H, and at least 16: see [StoreQueue]. Each polls for itself: at the time in the store's answer,
// when its turn may come, or when the store wakes it, which a [store.Notifier] delivers at once. A lost wake-up costs a second. A call that
// does not poll is taken for dead and skipped; if it was only late, it keeps its position.
//
// When its turn comes, a call gets its permits and its slots in one step. If it would have to wait for another of its limits, for longer
// than 10 ms or three round trips to the store, it gets its slots at once, as always, and requests its permits that long before the slot; if
// they are taken by then, it gives the slots back in the same step and is queued at its old position. So no call that waits for a permit
// holds a slot, and no call that waits for a slot holds a permit. (For lanes and fair shares, the 10 ms are 40 ms.)
//
// Calls of one stack need the same, so their order does not matter to the store. If a call gets a permit while one behind it holds a slot
// without, that slot goes back with the request, and the call behind reserves again: see [Dispatcher.neighbours].
//
// A permit is a lease. The process renews the leases of its calls, and if it ends, they run out. A call is over when its reservation is
// released. Calls that have outlived their lease, because their process was suspended, count again when it renews them. So more calls than
// the limit may run for a while.
//
// A lane's calls get their slots 40 ms ahead (H, where the round trip to the store is long), at the lane's part of the rate. The rest of
// the whole rate is lent 20 ms before it would be lost (H less 20 ms). Nothing is lent of windows. Fair shares are start-time fair queueing
// over the queued calls. The order within a queue is exact; the order between calls that come at nearly the same time is exact up to the
// slots of 40 ms.

// mayLeave reports whether one more call may enter the store's queue, or hold a slot. The caller holds mu.
func (s *Dispatcher) mayLeave(q *queue, now time.Time) bool {
	if q.passes && q.queuedInStore() >= keepQueued {
		return false
	}
	most := q.inStore.Most(s.way.Reach())
	if q.line[0].request[0].Flow != 0 && most == MinQueued { // a settlement counts for calls that reach the store's queue later
		most = keepQueued
	}
	return len(q.out) < most && q.furthest().Sub(now) <= s.reachOf(q)
}

// reachOf returns how far ahead the calls of a queue get their slots in the store's queue: of fair shares, so much further as a rate takes for one.
func (s *Dispatcher) reachOf(q *queue) time.Duration {
	further := time.Duration(0)
	for i := range q.limits {
		if l := &q.limits[i].Spec; l.Queue == specs.FairQueue && l.Algorithm == specs.GCRA {
			micros := min(q.line[0].request[0].CostOf(i), specs.MaxPeriod.Microseconds()/l.Interval) * l.Interval
			further = max(further, time.Duration(micros)*time.Microsecond)
		}
	}
	return s.way.Reach() + further
}

// letOut takes out the calls that may leave the queue. If none may before the furthest slot is near, it returns when: a timer then has
// to call it. The caller holds mu.
func (s *Dispatcher) letOut(q *queue, now time.Time) (again time.Time) {
	for len(q.line) > 0 && !s.frozen && s.mayLeave(q, now) {
		c := q.line[0]
		q.remove(c)
		q.takeOut(c)
		if !s.takeIdle(q, c, now) {
			c.due, c.known = now, s.changes.Load() // it polls for itself
		}
		c.signal()
	}
	if len(q.line) > 0 && q.furthest().Sub(now) > s.reachOf(q) {
		return q.furthest().Add(-s.reachOf(q))
	}
	return time.Time{}
}

// submit puts the first calls of a queue into the next request. The caller holds mu.
func (s *Dispatcher) submit(q *queue) {
	q.asking = true
	s.asks.waiting = append(s.asks.waiting, &q.ask)
}

// fill requests slots for the first n calls of a queue, and adds these requests to calls. The first may get any slot, unless the window allows
// no request yet; the others get one within reach. The caller holds mu.
func (s *Dispatcher) fill(q *queue, calls []store.Call, now time.Time, n int) []store.Call {
	most := s.farthest(q)
	if allowed, _ := s.askFor(q, now, 1); allowed == 0 {
		most = q.window.Reach()
	}
	for range n {
		c := q.line[0]
		q.remove(c)
		c.queue, c.state, c.known = q, asked, s.changes.Load()
		if c.caught { // others may have to wait for the answer
			c.catch()
		}
		call := c.asks(now, now)
		call.MaxWait = min(call.MaxWait, most)
		q.carried, calls = append(q.carried, c), append(calls, call)
		most = q.window.Reach()
	}
	return calls
}

// answerAll applies the store's answer to a queue's request, of those calls that it decided, and lets the next calls go. The caller holds mu.
func (s *Dispatcher) answerAll(q *queue, calls []store.Call, grants []store.Grant, began time.Time, err error) {
	now := time.Now()
	a := Answer{Requested: began.Sub(s.made), Answered: now.Sub(s.made), Calls: len(grants)}
	var left []*Call // granted nothing, because that is too far ahead, or because the store had no time
	known := q.carried[0].known
	for i, c := range q.carried {
		c.queue = nil
		switch {
		case err != nil:
			s.end(c, storeError(err))
		case i >= len(grants) || !s.grant(q, &a, c, &calls[i], &grants[i], began):
			left = append(left, c)
		}
	}
	for _, c := range slices.Backward(left) {
		s.comeBack(c)
	}
	for _, c := range q.carried {
		if c.moving != nil {
			c.moved()
		}
		c.signal()
	}
	if len(grants) > 0 {
		before := q.window.Gap()
		q.window.Answered(&a)
		if s.changed.renewed(q.limits, known) {
			q.expectSooner()
		}
		if gap := q.window.Gap(); gap > before+before/8 {
			s.refuseFar(q, now)
		}
	}
	clear(q.carried)
	q.carried, q.asking = q.carried[:0], false
	s.look(q)
}

// grant gives a call the store's answer, unless the call has to wait on because its slot is still too far ahead. It adds to a what the
// answer shows of the window. The caller holds mu.
func (s *Dispatcher) grant(q *queue, a *Answer, c *Call, call *store.Call, g *store.Grant, began time.Time) bool {
	at := began.Add(g.Wait()).Sub(s.made)
	if g.Wait() > 0 || !g.OK {
		a.Waits, a.Paused = true, a.Paused || g.Paused > 0 || g.Binds < store.BindsNothing
		q.last.Binds, q.last.Paused = g.Binds, g.Paused
	}
	q.last.OK, q.last.At, q.lastCost = g.OK, g.At, call.Cost
	if call.Costs != nil {
		q.lastCost = 0
	}
	if !g.OK {
		if a.Next == 0 || at < a.Next {
			a.Next = at
		}
		switch {
		case c != q.carried[0]:
		case q.most > 0:
			a.Again = a.Requested + s.poll(q, g)
		case unreached(call, g):
			a.Again = a.Requested + g.Wait()/2
		}
		if c.latest.IsZero() || g.Wait() <= c.latest.Sub(began) {
			return false
		}
		set(&c.grant[0], g)
		s.end(c, c.notYet(began))
		return true
	}
	set(&c.grant[0], g)
	c.requested, c.state = began, reserved
	s.granted(c)
	if a.Granted == 0 || at < a.First {
		a.First = at
	}
	a.Granted, a.Last = a.Granted+1, max(a.Last, at)
	if g.Wait() > 0 {
		q.takeOut(c)
	}
	return true
}
