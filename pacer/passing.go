package pacer

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A permit that is given back is free once the store knows, and taken once the next queued call has been woken and
// has asked: the longer the round trip to the store, the longer it is idle. So a process passes the permit of a call
// that is over on to its own next call that waits for the same permits and nothing else, without a request: for the
// store, the call before is still running. Other processes are not kept out for long: after a slice of time the
// permit goes back to the store, which gives it to the first queued call, of whatever process.

// The slice is sliceOfWays times the round trip to the store, of which two round trips are idle when the permit goes
// back, and no longer than maxSlice.
const (
	sliceOfWays = 200
	maxSlice    = 30 * time.Second
	// A permit that no call of the process waits for is kept for the next one that comes within this part of the
	// round trip, if that is worth a timer: callers that call again and again come at once.
	keptFor   = 8
	leastKept = time.Millisecond
	// keepQueued is how many calls of a process are in the store's queue for permits that are passed on. They are for
	// when the slice of a permit is over, and the fewer there are, the sooner it is the turn of another process.
	keepQueued = 4
)

// passing returns what the lease of a reservation that has got its permits needs to be passed on. The caller holds
// waiters.mu, if another goroutine knows the reservation.
func (p *Pacer) passing(r *Reservation) leases.Passing {
	if r.queue == nil || !r.queue.passes || r.grant[0].Local || !p.echoes() {
		return leases.Passing{}
	}
	return leases.Passing{Queue: r.queue.hash, Since: r.requested, Part: 0.5 + rand.Float64()}
}

// passable reports whether permits under some limits are passed on: they are if the call needs nothing else. The
// store decides which call gets those of fair shares, and a lease that counts only from some age on must not grow
// old.
func passable(limits []store.Limit) bool {
	return !slices.ContainsFunc(limits, func(l store.Limit) bool {
		return l.Spec.Algorithm != policies.Leases || l.Spec.Queue == policies.FairQueue || l.Spec.After != 0
	})
}

// passOn gives the permits of a call that is over to the next call of this process that waits for the same ones. If
// all such calls have a request under way, it keeps the permits until one of them has its answer. It returns false if
// they are to go back to the store.
func (p *Pacer) passOn(f *leases.Lease) bool {
	now := time.Now()
	slice := f.Passed.Part * float64(min(maxSlice, sliceOfWays*p.way.Longest()))
	if f.Passed.Queue == 0 || !p.echoes() || now.Sub(f.Passed.Since) > time.Duration(slice) {
		return false
	}
	p.waiters.mu.Lock()
	defer p.waiters.mu.Unlock()
	keep := p.way.Longest() / keptFor
	if p.queues.byStack[f.Passed.Queue] == nil && keep < leastKept || p.isClosed() || p.pausedNow(f.Limits, now) {
		return false // without a queue, no call waits
	}
	q := p.queueFor(f.Passed.Queue, f.Limits, true)
	if q == nil {
		return false
	}
	if p.pass(q, f, now) {
		return true
	}
	if keep >= leastKept {
		f.Kept = now.Add(keep)
		time.AfterFunc(keep, func() {
			p.waiters.mu.Lock()
			defer p.waiters.mu.Unlock()
			p.passIdle(q) // the queue may serve another stack by now, which does no harm
			p.admit(q)
		})
	} else if !q.hasRequests() {
		return false
	}
	q.idle = append(q.idle, f)
	return true
}

// passIdle passes on the permits that are kept, or gives them back if no call has a request under way and their time
// is over. The caller holds waiters.mu.
func (p *Pacer) passIdle(q *queue) {
	for len(q.idle) > 0 && !p.isClosed() {
		f := q.idle[0]
		now := time.Now()
		if paused := p.pausedNow(f.Limits, now); paused || !p.pass(q, f, now) {
			if !paused && (q.hasRequests() || now.Before(f.Kept)) {
				return
			}
			p.leases.GiveBack(f)
		}
		q.idle = slices.Delete(q.idle, 0, 1)
	}
}

// takeIdle gives a call that arrives with no call before it a permit that is kept. The caller holds waiters.mu.
func (p *Pacer) takeIdle(q *queue, r *Reservation) bool {
	now := time.Now()
	if len(q.idle) == 0 || q.length > 0 || q.queuedInStore() > 0 || p.isClosed() || p.pausedNow(q.limits, now) {
		return false
	}
	f := q.idle[0]
	q.idle = slices.Delete(q.idle, 0, 1)
	if !p.passTo(f, r, now) {
		return false
	}
	q.takeOut(r)
	p.inherit(r, f, now)
	return true
}

// pass gives permits to the first queued call, and reports whether there is one. The caller holds waiters.mu.
func (p *Pacer) pass(q *queue, f *leases.Lease, now time.Time) bool {
	i := slices.IndexFunc(q.out, func(r *Reservation) bool { return r.isQueued() && (r.latest.IsZero() || now.Before(r.latest)) })
	if i < 0 || !p.passTo(f, q.out[i], now) {
		return false
	}
	heir := q.out[i]
	if left := heir.leavesPosition(); left != 0 {
		p.leases.Leave(left, f.Limits)
	}
	p.inherit(heir, f, now)
	select {
	case heir.wake <- struct{}{}:
	default:
	}
	return true
}

// inherit sets what a call has that took over the lease of another. The caller holds waiters.mu.
func (p *Pacer) inherit(r *Reservation, f *leases.Lease, now time.Time) {
	r.call[0].ID = f.ID
	g := &r.grant[0]
	*g = store.Grant{OK: true, Now: r.lease.Began, At: r.lease.Began, Slack: maxSlack, Binds: g.Binds, Charges: g.Charges[:0]}
	for range r.stack.Limits {
		g.Charges = append(g.Charges, store.Charge{From: f.ID, To: 1})
	}
	r.requested, r.due = now, now
	p.usage.Enter(&r.tracked, r.stack.Limits, &r.call[0])
}

// hasRequests reports whether a call that has left the queue has no permit yet, and waits for an answer of the store
// or is about to sleep. The caller holds waiters.mu.
func (q *queue) hasRequests() bool {
	return slices.ContainsFunc(q.out, func(r *Reservation) bool { return r.state == reserved && r.lease == nil && !r.isQueued() })
}

// pausedNow reports whether one of some limits, or the whole upstream, is paused. The caller holds waiters.mu.
func (p *Pacer) pausedNow(limits []store.Limit, now time.Time) bool {
	at, pauses := p.clock.estimate(now), p.waiters.pauses
	return pauses[store.Key{}] > at || slices.ContainsFunc(limits, func(l store.Limit) bool { return pauses[l.Key()] > at })
}

// leavesPosition gives the position of the process's first call in the store's queue, which is the call that the
// store wakes next, to another of its calls: to the first that waits in the process, or else to the last that is
// queued in the store. It returns the ID of the position that is then given up, to be reported to the store; 0 for
// none. The caller holds waiters.mu.
func (r *Reservation) leavesPosition() (id int64) {
	q, s := r.queue, &r.pacer.waiters
	one := q.head
	if one == nil {
		s.swap(r, q.lastQueued())
		delete(s.queued, r.call[0].ID)
		return r.call[0].ID
	}
	q.remove(one)
	next := one.call
	q.takeOut(next)
	next.call[0].ID, next.call[0].Since = r.call[0].ID, r.call[0].Since
	charges := next.grant[0].Charges
	next.grant[0], next.requested, next.due = r.grant[0], r.requested, r.due
	next.grant[0].Charges = charges
	delete(s.queued, r.call[0].ID) // until it sleeps again
	one.state = inherits
	one.wake()
	return 0
}

// maxSlack is the slack of a call that no slot binds, as stores report it.
const maxSlack = time.Second

// isQueued reports whether a reservation sleeps in the store's queue, with no request under way. Before it sleeps,
// only its owner knows it. The caller holds waiters.mu.
func (r *Reservation) isQueued() bool {
	_, asleep := r.pacer.waiters.waiting[r]
	return asleep && r.state == reserved && r.moving == nil && r.grant[0].Queued
}

// lastQueued returns the last call that is queued in the store, of which there is at least one. The caller holds
// waiters.mu.
func (q *queue) lastQueued() *Reservation {
	for _, r := range slices.Backward(q.out) {
		if r.isQueued() {
			return r
		}
	}
	return nil
}

// swap exchanges the positions of two calls in the store's queue. The caller holds mu.
func (s *waiterSet) swap(a, b *Reservation) {
	if a == b {
		return
	}
	a.call[0].ID, b.call[0].ID = b.call[0].ID, a.call[0].ID
	a.call[0].Since, b.call[0].Since = b.call[0].Since, a.call[0].Since
	a.due, b.due = b.due, a.due
	for _, r := range []*Reservation{a, b} {
		s.queued[r.call[0].ID] = r
		select {
		case r.wake <- struct{}{}: // it asks again at another time
		default:
		}
	}
}

// passTo makes the lease of a call that is done the lease of a reservation, whose call begins now. It returns false
// if the lease is no longer held. The caller holds waiters.mu.
func (p *Pacer) passTo(f *leases.Lease, r *Reservation, now time.Time) bool {
	heir := p.leases.Pass(f, p.clock.estimate(now))
	if heir != nil {
		r.lease = heir
	}
	return heir != nil
}
