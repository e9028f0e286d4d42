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
	sliceOfWays = 100
	maxSlice    = 15 * time.Second
)

// A passing is what a lease needs to be passed on.
type passing struct {
	queue uint64    // the number of the queue whose calls may have it; 0 for none
	since time.Time // when the store gave the place
}

// passing returns that for a reservation that has got its places. Only places are passed on: a call that needs slots besides has to
// ask for them. Those of fair shares go to whom the store says, and what counts from some age on is not to grow old. The caller
// holds sleepers.mu, if anybody else knows the reservation.
func (p *Pacer) passing(r *Reservation) passing {
	if p.memory != nil || r.queue == nil || r.grant[0].alone != nil || !p.tells() {
		return passing{}
	}
	for i := range r.stack.Limits {
		if s := &r.stack.Limits[i].Spec; s.Algorithm != policies.Leases || s.Queue == policies.FairQueue || s.After != 0 {
			return passing{}
		}
	}
	return passing{r.queue.hash, r.asked}
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
	left := &lease{id: heir.call[0].ID, limits: f.limits} // the line in the store
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
	p.leases.giveBack(p, left)
	return true
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
	i := slices.IndexFunc(q.out, func(r *Reservation) bool {
		return r.state == reserved && r.moving == nil && r.grant[0].InLine && (r.latest.IsZero() || now.Before(r.latest))
	})
	if i < 0 {
		return nil
	}
	return q.out[i]
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
