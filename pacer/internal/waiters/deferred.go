package waiters

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// A grant cannot be taken back. So some limits are not granted far in advance, as rates and windows are, but only shortly before the
// slot: permits (policies.InFlight), because it is unknown when a call will be over; and what calls of different importance share
// (policies.Policy.Lane, policies.Policy.Fair), because calls that come later must not have to make do with the rest. A call that has to
// wait for such a limit is queued in the store, in order, and is charged nothing: see [store.Grant].Queued. Its stack is deferred.
//
// Calls of a deferred stack leave the queue of the process one by one, for the store's queue or for a slot. As many calls of a process
// are out at a time as are served within twice H, and at least 16: see [StoreQueue]. Each asks for itself, again and again: at the time
// that the store's answer gives, which is when its turn may come, or when the store wakes it, which a [store.Notifier] delivers at
// once. A wake-up that is lost costs a second. A call that does not ask again is taken for dead and skipped; if it was only late, it
// keeps its position.
//
// When its turn comes, a call gets its permits and its slots in one step. If it would have to wait for another of its limits, for longer
// than 10 ms or three times the way to the store and back, it gets its slots at once, as always, and asks for its permits so long before
// the slot; if they are taken by then, it gives the slots back in the same step and is queued, where it was. So no call that waits for a
// permit holds a slot, and no call that waits for a slot holds a permit. (For lanes and fair shares, the 10 ms are 40 ms.)
//
// In what order calls of one stack get slots and permits does not matter to the store: they need the same. So if a call gets a permit
// while one behind it holds a slot without, that slot goes back with the request, and the call behind asks again: see
// [Waiters.neighbours].
//
// A permit is a lease. The process renews the leases of its calls, and if it ends, they run out. A call is over when its reservation is
// released. Calls that have outlived their lease, because their process was suspended, count again when it renews them. So there may be
// more than the limit for a while: they run, whatever the store has on record.
//
// A lane's calls get their slots 40 ms ahead (H, where the round trip to the store is long), at the lane's part of the rate. What that
// leaves of the whole rate is lent 20 ms before it would be lost (H less 20 ms). Nothing is lent of windows. Fair shares are start-time
// fair queueing over the queued calls. The order within a queue is exact; the order between calls that ask at nearly the same time is
// exact up to the slots of 40 ms.

// mayLeave reports whether one more call may enter the store's queue, or hold a slot. The caller holds mu.
func (s *Waiters) mayLeave(q *queue, now time.Time) bool {
	reach := s.way.Reach()
	if q.passes && q.queuedInStore() >= keepQueued {
		return false
	}
	return len(q.out) < q.inStore.Most(reach) && q.furthest().Sub(now) <= reach
}

// letOut takes out the calls that may leave the queue. If none may before the furthest slot is near, it returns when: a timer then has
// to call it. The caller holds mu.
func (s *Waiters) letOut(q *queue, now time.Time) (again time.Time) {
	for q.head != nil && s.frozen == 0 && s.mayLeave(q, now) {
		c := q.head
		q.remove(c)
		q.takeOut(c)
		c.due, c.known = now, s.changes.Load() // it asks for itself
		c.signal()
	}
	if reach := s.way.Reach(); q.head != nil && q.furthest().Sub(now) > reach {
		return q.furthest().Add(-reach)
	}
	return time.Time{}
}

// askAgain asks the store once more, for a call that is marked as moving.
func (s *Waiters) askAgain(ctx context.Context, c *Call) {
	s.lock()
	if c.isStale() {
		s.unlock()
		s.requeue(ctx, []*Call{c}, false)
		return
	}
	old, held, first := c.stack, c.widened(), c.preferred()
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
	s.unlock()
	c.request[0].Reach = s.way.Lead()
	calls, grants := [1]store.Call{c.asks(began, c.notBefore)}, [1]store.Grant{}
	call := &calls[0]
	call.First = first
	if yields {
		call.MaxWait = min(call.MaxWait, reach)
	}
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
		if err == nil && yields && !g.OK && !g.Queued && (c.latest.IsZero() || g.Wait() <= c.latest.Sub(began)) {
			s.sleep(c, g.Binds, g.Now, began, before.Sub(began)-reach)
		} else {
			s.answer(c, call, g, began, err)
		}
		c.moved()
		c.woken = false
		if q := c.queue; q != nil {
			s.passIdle(q)
		}
	}()
	err = s.reserve(ctx, &c.stack, calls[:], grants[:])
}

// neighbours returns the furthest slot of the calls before one that asks again because it is queued for a permit, and the first call after
// it that sleeps until its slot and has no permits yet. The caller holds mu.
//
// Slots that a process holds without permits are in the way if permits are what is short: a call that gets one may go at once, but not a
// limit's interval before such a slot. So it takes the place of the call after it: that one's slot is given back with the request, and
// it asks again. And if a call before has a slot that is far, permits are not what is short. A slot that is even further is not worth
// holding: the call sleeps in the process, until that of the one before is near.
func (s *Waiters) neighbours(c *Call) (before time.Time, later *Call) {
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
		case o.state == reserved && o.moving == nil && o.grant[0].OK && !o.grant[0].Local && !o.hasPermits():
			if _, asleep := s.waiting[o]; asleep {
				return before, o
			}
		}
	}
	return before, nil
}

// unreached reports whether a call has no slot only because the windows of a calendar are not known so far ahead. It asks again when half
// of the time to the slot is over, so that it asks a few times, however far away that is.
func unreached(call *store.Call, g *store.Grant) bool {
	return !g.OK && g.AtLeast && g.Wait() <= call.MaxWait
}

// sleep has a call without a slot ask again some time after now, which is when the store answered a request that began then. The caller
// holds mu.
func (s *Waiters) sleep(c *Call, binds int, now store.Instant, began time.Time, d time.Duration) {
	c.grant[0] = store.Grant{Queued: true, Binds: binds, Now: now, At: now.Add(max(0, d)), Charges: c.grant[0].Charges[:0]}
	c.requested = began
	s.granted(c)
}

// wake makes a queued call ask again now.
func (s *Waiters) wake(id int64) {
	s.lock()
	defer s.unlock()
	if c := s.byID[id]; c != nil {
		if q := c.queue; q != nil && s.isQueued(c) {
			if i := slices.IndexFunc(q.out, s.isQueued); q.out[i] != c {
				s.swap(q.out[i], c) // it is the turn of the first
				c = q.out[i]
			}
		}
		s.retry(c)
		return
	}
	s.earlyWakes[s.earlyWake%len(s.earlyWakes)] = id
	s.earlyWake++
}

// wasWoken reports whether a call was woken before this process knew that it is queued. The caller holds mu.
func (s *Waiters) wasWoken(c *Call) bool {
	return c.grant[0].Queued && slices.Contains(s.earlyWakes[:], c.request[0].ID)
}

// isQueued reports whether a call sleeps in the store's queue, with no request under way. Before it sleeps, only its owner knows it. The
// caller holds mu.
func (s *Waiters) isQueued(c *Call) bool {
	_, asleep := s.waiting[c]
	return asleep && c.state == reserved && c.moving == nil && c.grant[0].Queued
}

// retry makes a call ask again now, if it is queued. The caller holds mu.
func (s *Waiters) retry(c *Call) {
	if c.state == reserved && c.moving != nil {
		c.woken = true
	}
	if c.state != reserved || c.moving != nil || !c.grant[0].Queued {
		return
	}
	c.due = time.Now()
	c.signal()
}

// retryAll makes all queued calls ask again: a wake-up may not have been received.
func (s *Waiters) retryAll() {
	s.lock()
	defer s.unlock()
	for _, c := range s.byID {
		s.retry(c)
	}
}
