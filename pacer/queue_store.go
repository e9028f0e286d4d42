package pacer

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// Calls of a stack with a limit that is granted only shortly before the slot leave the queue of the process one by
// one, for the store's queue or for a slot. As many calls of a process are out at a time as are soon to be served:
// see waiters.Line. Each asks for itself.

// chargeQueued has a call ask the store once it may leave the queue. The caller holds waiters.mu, which chargeQueued
// unlocks.
func (p *Pacer) chargeQueued(ctx context.Context, q *queue, r *Reservation) error {
	s := &p.waiters
	if p.takeIdle(q, r) {
		s.mu.Unlock()
		return nil
	}
	now := time.Now()
	if q.length == 0 && p.mayLeave(q, now) {
		q.takeOut(r)
		s.mu.Unlock()
	} else {
		p.waiting.Add(1)
		defer p.waiting.Done()
		if err := p.stand(ctx, q, r, now); err != nil { // unlocks s.mu
			return err
		}
		if r.grant[0].Now != 0 { // it is in the store's queue already
			return nil
		}
	}
	asked := time.Now()
	calls, grants := [1]store.Call{r.call[0]}, [1]store.Grant{{Charges: r.room.charges[:0]}}
	if !r.latest.IsZero() {
		calls[0].MaxWait = max(0, r.latest.Sub(asked))
	}
	done := false
	defer func() {
		if !done { // the store panics, or a hook of its client
			s.mu.Lock()
			r.leaveQueue()
			s.mu.Unlock()
		}
	}()
	err := p.reserveIn(ctx, &r.stack, calls[:], grants[:], asked)
	done = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		r.leaveQueue()
		return err
	}
	r.requested, r.grant[0] = asked, grants[0]
	switch g := &r.grant[0]; {
	case !g.OK && !g.Queued:
		r.leaveQueue()
		return p.notYetIn(r, asked)
	case g.OK && g.Wait() > 0:
		q.held = append(q.held, r)
		fallthrough
	case g.Queued:
		q.last = store.Grant{Binds: g.Binds, Paused: g.Paused}
	}
	if p.direct == nil {
		p.clock.latest(r.grant[0].Now, asked, time.Now()) // for permits that are passed on
	}
	p.granted(r)
	return nil
}

// takeOut records that a call leaves the queue. The caller holds waiters.mu.
func (q *queue) takeOut(r *Reservation) {
	r.queue, r.grant[0].Queued = q, false // it asks for itself
	q.out = append(q.out, r)
}

// queuedInStore returns how many calls are in the store's queue. The caller holds waiters.mu.
func (q *queue) queuedInStore() (n int) {
	for _, r := range q.out {
		if r.state == reserved && r.grant[0].Queued {
			n++
		}
	}
	return n
}

// mayLeave reports whether one more call may enter the store's queue, or hold a slot. The caller holds waiters.mu.
func (p *Pacer) mayLeave(q *queue, now time.Time) bool {
	reach := p.way.Reach()
	if q.passes && q.queuedInStore() >= keepQueued {
		return false
	}
	return len(q.out) < q.line.Most(reach) && q.furthest().Sub(now) <= reach
}

// leaveQueue takes out the calls that may leave the queue. If none may before the furthest slot is near, it returns
// when: a timer then has to call it. The caller holds waiters.mu.
func (p *Pacer) leaveQueue(q *queue, now time.Time) (again time.Time) {
	for q.head != nil && p.mayLeave(q, now) {
		one := q.head
		q.remove(one)
		q.takeOut(one.call)
		one.state = leads
		one.wake()
	}
	if reach := p.way.Reach(); q.head != nil && q.furthest().Sub(now) > reach {
		return q.furthest().Add(-reach)
	}
	return time.Time{}
}
