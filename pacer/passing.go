package pacer

import (
	"slices"
	"time"

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
	// keepInLine is how many calls of a process stand in the store's line for places that are passed on: they are for when the slice
	// of one is over, and the fewer there are, the sooner it is the turn of another process.
	keepInLine = 4
)

// A passing is what a lease needs to be passed on.
type passing struct {
	queue uint64    // the number of the queue whose calls may have it; 0 for none
	since time.Time // when the store gave the place
}

// passing returns that for a reservation that has got its places. The caller holds sleepers.mu, if anybody else knows the
// reservation.
func (p *Pacer) passing(r *Reservation) passing {
	if r.queue == nil || !r.queue.passes || r.grant[0].alone != nil || !p.tells() {
		return passing{}
	}
	return passing{r.queue.hash, r.asked}
}

// passable reports whether places under some limits are passed on: they are if nothing else is needed. Those of fair shares go to whom
// the store says, and what counts from some age on is not to grow old.
func passable(limits []Limit) bool {
	return !slices.ContainsFunc(limits, func(l Limit) bool {
		return l.Spec.Algorithm != policies.Leases || l.Spec.Queue == policies.FairQueue || l.Spec.After != 0
	})
}

// passOn gives the places of a call that is over to the next call of this process in line for the same ones. It returns false if they
// are to go back to the store.
func (p *Pacer) passOn(f *lease) bool {
	now := time.Now()
	if f.passed.queue == 0 || !p.tells() || now.Sub(f.passed.since) > min(maxSlice, sliceOfWays*p.way.Longest()) {
		return false
	}
	s := &p.sleepers
	s.mu.Lock()
	heir := p.heir(f, now)
	if heir == nil || !p.leases.passTo(f, heir, p.clock.estimate(now)) {
		s.mu.Unlock()
		return false
	}
	left := heir.leavesPlace()
	heir.call[0].ID = f.id
	g := &heir.grant[0]
	*g = Grant{OK: true, Now: heir.lease.began, At: heir.lease.began, Slack: maxSlack, Binds: g.Binds, Charges: g.Charges[:0]}
	for range heir.stack.Limits {
		g.Charges = append(g.Charges, Charge{From: f.id, To: 1})
	}
	heir.asked, heir.due = now, now
	p.watches.entered(heir)
	select {
	case heir.wake <- struct{}{}:
	default:
	}
	s.mu.Unlock()
	if left != 0 {
		p.leases.giveBack(p, &lease{id: left, limits: f.limits})
	}
	return true
}

// leavesPlace gives the place of the first of a process in the store's line, which is the next one that the store calls, to another
// of its calls: to the first that waits in the process, or else to the last that stands in line. It returns the id of the place that
// is left then, of which the store is to be told; 0 for none. The caller holds sleepers.mu.
func (r *Reservation) leavesPlace() (id int64) {
	q, s := r.queue, &r.pacer.sleepers
	one := q.first
	if one == nil {
		s.swap(r, q.lastInLine())
		delete(s.inLine, r.call[0].ID)
		return r.call[0].ID
	}
	q.remove(one)
	next := one.call
	q.lets(next)
	next.call[0].ID, next.call[0].Since = r.call[0].ID, r.call[0].Since
	charges := next.grant[0].Charges
	next.grant[0], next.asked, next.due = r.grant[0], r.asked, r.due
	next.grant[0].Charges = charges
	delete(s.inLine, r.call[0].ID) // until it sleeps
	one.state = inherits
	one.wake()
	return 0
}

// maxSlack is the slack of a call that no slot binds: as stores say it.
const maxSlack = time.Second

// heir returns the first call in line that may have the places of a lease; nil for none. The caller holds sleepers.mu.
func (p *Pacer) heir(f *lease, now time.Time) *Reservation {
	q := p.queues.byStack[f.passed.queue]
	if q == nil || p.isClosed() || !(&Stack{Limits: q.limits}).same(&Stack{Limits: f.limits}) {
		return nil
	}
	at := p.clock.estimate(now)
	if at == 0 || p.sleepers.pauses[pauseKey{}] > at {
		return nil
	}
	for i := range f.limits {
		if p.sleepers.pauses[pauseKey{f.limits[i].Policy, f.limits[i].Scope}] > at {
			return nil
		}
	}
	i := slices.IndexFunc(q.out, func(r *Reservation) bool { return r.stands() && (r.latest.IsZero() || now.Before(r.latest)) })
	if i < 0 {
		return nil
	}
	return q.out[i]
}

// stands reports whether a reservation is in line, and does not ask the store just now. The caller holds sleepers.mu.
func (r *Reservation) stands() bool { return r.state == reserved && r.moving == nil && r.grant[0].InLine }

// lastInLine returns the last one that stands in line, of which there is one. The caller holds sleepers.mu.
func (q *queue) lastInLine() *Reservation {
	for _, r := range slices.Backward(q.out) {
		if r.stands() {
			return r
		}
	}
	return nil
}

// swap has two calls of a queue take each other's places in the store's line. The caller holds mu.
func (s *sleepers) swap(a, b *Reservation) {
	if a == b {
		return
	}
	a.call[0].ID, b.call[0].ID = b.call[0].ID, a.call[0].ID
	a.call[0].Since, b.call[0].Since = b.call[0].Since, a.call[0].Since
	a.due, b.due = b.due, a.due
	for _, r := range []*Reservation{a, b} {
		if _, asleep := s.asleep[r]; asleep {
			s.inLine[r.call[0].ID] = r
		} else {
			delete(s.inLine, r.call[0].ID)
		}
		select {
		case r.wake <- struct{}{}: // it asks again at another time
		default:
		}
	}
}

// passTo makes the lease of a call that is over that of a reservation, whose call begins now. It returns false if nobody has it any
// more. The caller holds sleepers.mu.
func (s *leases) passTo(f *lease, r *Reservation, now Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.aloft[f.id] != f {
		return false
	}
	r.lease = &lease{id: f.id, limits: f.limits, began: now, length: f.length, guard: f.guard, renewed: f.renewed, passed: f.passed}
	s.aloft[f.id] = r.lease
	return true
}
