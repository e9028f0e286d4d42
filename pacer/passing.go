package pacer

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A place in flight that is given back is free when the store knows, and taken when the next one in line has heard and has asked: the
// farther away the store is, the longer it is idle. So a process passes the place of a call that is over on to its own next call
// in line, without asking: for the store, the call before is still running. Others are not kept out for long: after a slice of time
// the place goes back to the store, which gives it to whoever is the next in line.

// The slice is so many times the way to the store and back, of which two are idle when it goes back, and no longer than maxSlice.
const (
	sliceOfWays = 200
	maxSlice    = 30 * time.Second
	// A place that none of the process's calls waits for is kept for the next one that comes within this part of the way, if that is
	// worth a timer: callers who call again and again come at once.
	keptFor   = 8
	leastKept = time.Millisecond
	// keepInLine is how many calls of a process stand in the store's line for places that are passed on: they are for when the slice
	// of one is over, and the fewer there are, the sooner it is the turn of another process.
	keepQueued = 4
)

// passing returns what the lease of a reservation that has got its permits needs to be passed on. The caller holds sleepers.mu, if anybody else knows the
// reservation.
func (p *Pacer) passing(r *Reservation) leases.Passing {
	if r.queue == nil || !r.queue.passes || r.grant[0].Local || !p.echoes() {
		return leases.Passing{}
	}
	return leases.Passing{Queue: r.queue.hash, Since: r.requested, Part: 0.5 + rand.Float64()}
}

// passable reports whether places under some limits are passed on: they are if nothing else is needed. Those of fair shares go to whom
// the store says, and what counts from some age on is not to grow old.
func passable(limits []store.Limit) bool {
	return !slices.ContainsFunc(limits, func(l store.Limit) bool {
		return l.Spec.Algorithm != policies.Leases || l.Spec.Queue == policies.FairQueue || l.Spec.After != 0
	})
}

// passOn gives the places of a call that is over to the next call of this process in line for the same ones. If all of those just ask
// the store, it keeps the places until one of them has its answer. It returns false if they are to go back to the store.
func (p *Pacer) passOn(f *leases.Lease) bool {
	now := time.Now()
	slice := f.Passed.Part * float64(min(maxSlice, sliceOfWays*p.way.Longest()))
	if f.Passed.Queue == 0 || !p.echoes() || now.Sub(f.Passed.Since) > time.Duration(slice) {
		return false
	}
	p.waiters.mu.Lock()
	defer p.waiters.mu.Unlock()
	q := p.queueFor(f.Passed.Queue, f.Limits, true)
	if q == nil || p.isClosed() || p.pausedNow(f.Limits, now) {
		return false
	}
	if p.pass(q, f, now) {
		return true
	}
	if keep := p.way.Longest() / keptFor; keep >= leastKept {
		f.Kept = now.Add(keep)
		time.AfterFunc(keep, func() {
			p.waiters.mu.Lock()
			defer p.waiters.mu.Unlock()
			p.passIdle(q) // of this stack or, if it serves another one by now, of that: it does no harm
			p.admit(q)
		})
	} else if !q.hasRequests() {
		return false
	}
	q.idle = append(q.idle, f)
	return true
}

// passIdle passes on the places that are kept, or gives them back if nobody asks any more and their time is over. The caller holds
// sleepers.mu.
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

// takeIdle gives a call that comes, and that has nobody before it, a place that is kept. The caller holds sleepers.mu.
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

// pass gives places to the first call that stands in line, and reports whether there is one. The caller holds sleepers.mu.
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

// inherit notes what a call has whose lease was another's. The caller holds sleepers.mu.
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

// asked reports whether a call that has left the queue has no place yet, and waits for an answer of the store, or is about to sleep.
// The caller holds sleepers.mu.
func (q *queue) hasRequests() bool {
	return slices.ContainsFunc(q.out, func(r *Reservation) bool { return r.state == reserved && r.lease == nil && !r.isQueued() })
}

// pausedNow reports whether one of some limits, or the whole upstream, is paused. The caller holds sleepers.mu.
func (p *Pacer) pausedNow(limits []store.Limit, now time.Time) bool {
	at, pauses := p.clock.estimate(now), p.waiters.pauses
	return pauses[store.Key{}] > at || slices.ContainsFunc(limits, func(l store.Limit) bool { return pauses[l.Key()] > at })
}

// leavesPlace gives the place of the first of a process in the store's line, which is the next one that the store calls, to another
// of its calls: to the first that waits in the process, or else to the last that stands in line. It returns the id of the place that
// is left then, of which the store is to be told; 0 for none. The caller holds sleepers.mu.
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
	delete(s.queued, r.call[0].ID) // until it sleeps
	one.state = inherits
	one.wake()
	return 0
}

// maxSlack is the slack of a call that no slot binds: as stores say it.
const maxSlack = time.Second

// stands reports whether a reservation sleeps in line, and does not ask the store just now. Before it sleeps, it is its owner's alone.
// The caller holds sleepers.mu.
func (r *Reservation) isQueued() bool {
	_, asleep := r.pacer.waiters.waiting[r]
	return asleep && r.state == reserved && r.moving == nil && r.grant[0].Queued
}

// lastInLine returns the last one that stands in line, of which there is one. The caller holds sleepers.mu.
func (q *queue) lastQueued() *Reservation {
	for _, r := range slices.Backward(q.out) {
		if r.isQueued() {
			return r
		}
	}
	return nil
}

// swap has two calls of a queue that stand in the store's line take each other's places there. The caller holds mu.
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

// passTo makes the lease of a call that is done that of a reservation, whose call begins now. It returns false if it is nobody's any
// more. The caller holds sleepers.mu.
func (p *Pacer) passTo(f *leases.Lease, r *Reservation, now time.Time) bool {
	heir := p.leases.Pass(f, p.clock.estimate(now))
	if heir != nil {
		r.lease = heir
	}
	return heir != nil
}
