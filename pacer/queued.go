package pacer

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/notes"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A grant cannot be taken back. So some limits are not granted far in advance, as rates and windows are, but only
// shortly before the slot: permits (policies.InFlight), because it is unknown when a call will be over; and what
// calls of different importance share (policies.Policy.Lane, policies.Policy.Fair), because calls that come later
// must not have to make do with the rest. A call that has to wait for such a limit is queued in the store, in order,
// and is charged nothing: see [store.Grant].Queued.
//
// A queued call asks again at the time that the store's answer gives, which is when its turn may come, or when the
// store wakes it, which a [store.Notifier] delivers at once. A wake-up that is lost costs a second. A call that does
// not ask again is taken for dead and skipped; if it was only late, it keeps its position. Of a process, as many
// calls are queued there as are served within twice H, and at least 16; the others wait behind them in the process.
//
// When its turn comes, a call gets its permits and its slots in one step. If it would have to wait much longer than
// 40 ms for another of its limits, it gets its slots at once, as always, and its permits when the slot comes; if they
// are taken by then, it gives the slots back in the same step and is queued, where it was. So no call that waits for
// a permit holds a slot, and no call that waits for a slot holds a permit.
//
// A permit is a lease. The process renews the leases of its calls, and if it ends, they run out. A call is over when
// [Reservation.Release] is called. Calls that have outlived their lease, because their process was suspended, count
// again when it renews them. So there may be more than the limit for a while: they run, whatever the store has on
// record.
//
// A lane's calls get their slots 40 ms ahead (H, where the round trip to the store is long), at the lane's part of
// the rate. What that leaves of the whole rate is lent 20 ms before it would be lost (H less 20 ms). Nothing is lent
// of windows. Fair shares are start-time fair queueing over the queued calls. The order within a queue is exact; the
// order between calls that ask at nearly the same time is exact up to the slots of 40 ms.

// permitMargin is how much later than its reach before its slot a call asks for its permits, if it got the slot
// without them: stores do not grant them earlier.
const permitMargin = 5 * time.Millisecond

// prepareQueued gives a call what it needs to be queued in the store, if one of its limits has a queue there.
func (p *Pacer) prepareQueued(a *ask, limits []store.Limit, call *store.Call) error {
	late, fair := false, ""
	for i := range limits {
		l := &limits[i]
		late = late || l.Spec.HasQueue()
		if l.Spec.Algorithm == policies.Leases && !a.permits {
			return &ConfigError{
				Field: "Wait", Value: "not enough",
				Reason: fmt.Sprintf("policy %q counts calls in flight, so it must be known when this one is over: use Acquire, and Release what it returns", l.Policy),
			}
		}
		if l.Spec.Queue == policies.FairQueue {
			fair = l.Policy
		}
	}
	if !late {
		return nil
	}
	// IDs have one length, so that their order as numbers is that of their digits, and are exact in Lua.
	call.ID, call.Weight, call.Reach = 1e14+rand.Int64N(9e14), a.weight, p.way.Reach()
	if fair != "" {
		who := a.scope(p.fairBy)
		if who == "" {
			return &ScopeError{Upstream: p.upstream, Policy: fair, Scope: p.fairBy}
		}
		call.Flow = flowOf(who)
	}
	return nil
}

// flowOf returns the number that identifies a scope value's fair share: the same in every process, from 1 to 2^53.
// Values that collide share a part.
func flowOf(value string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value))
	return int64(h.Sum64()>>12) + 1
}

// asksAgain reports whether the reservation has to ask the store once more before its call may go, and when.
func (r *Reservation) asksAgain() (at time.Time, again bool) {
	if r.call[0].ID == 0 {
		return time.Time{}, false
	}
	if r.grant[0].Queued {
		return r.due, true
	}
	return r.due.Add(permitMargin - r.call[0].Reach), !r.hasPermits()
}

// hasPermits reports whether the reservation has its permits, if it needs any. A call that is let through needs none.
func (r *Reservation) hasPermits() bool {
	if g := &r.grant[0]; g.Local && g.Receipt == nil {
		return true
	}
	for i, c := range r.grant[0].Charges {
		if c.To == 0 && r.stack.Limits[i].Spec.Algorithm == policies.Leases {
			return false
		}
	}
	return true
}

// granted applies a grant: a slot, or a position in the store's queue. The caller holds pacer.waiters.mu, if another
// goroutine knows the reservation.
func (p *Pacer) granted(r *Reservation) {
	g := &r.grant[0]
	p.dropLease(r)
	r.due = p.dueTime(r)
	if r.call[0].ID != 0 {
		if r.call[0].Since == 0 {
			r.call[0].Since = g.Now
		}
		if g.Queued {
			p.usage.Leave(&r.tracked, &r.call[0])
			if r.woken { // it was woken while the request was under way
				r.due = time.Now()
			}
			return
		}
		if r.hasPermits() {
			r.lease = p.leases.Take(r.call[0].ID, r.stack.Limits, r.grant[0].At, r.requested, p.passing(r))
		}
	}
	p.usage.Enter(&r.tracked, r.stack.Limits, &r.call[0])
}

// dropLease forgets the permits of a reservation that is about to get others, or none. The caller holds waiters.mu,
// if another goroutine knows the reservation.
func (p *Pacer) dropLease(r *Reservation) {
	p.leases.Forget(r.lease)
	r.lease = nil
}

// reportLeases reports to the store which calls are done, or go on. Permits whose report is lost come back when their
// leases run out.
func (p *Pacer) reportLeases(all []notes.Report, closed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout) // their own contexts may have ended
	defer cancel()
	to := p.store
	if closed { // a closed member sends no more requests
		to = p.given
	}
	for _, m := range all {
		_, _, _ = to.Report(ctx, store.Stack{Upstream: p.upstream, Limits: m.Limits}, m.Notes)
	}
}

// askAgain asks the store once more, for a call that is marked as moving.
func (p *Pacer) askAgain(ctx context.Context, r *Reservation) {
	asked := time.Now()
	calls, grants := [1]store.Call{r.call[0]}, [1]store.Grant{}
	c := &calls[0]
	c.NotBefore, c.Reach = max(0, time.Until(r.notBefore)), p.way.Reach()
	r.call[0].Reach = c.Reach
	if !r.latest.IsZero() {
		c.MaxWait = max(0, time.Until(r.latest))
	}
	ctx = context.WithoutCancel(ctx)
	switch g := &r.grant[0]; {
	case g.Queued:
	case g.Local: // the store did not grant it and cannot take it back
		c.Slot = g.At
		_ = p.store.Cancel(ctx, r.stack, r.grant[:])
	default:
		c.Slot, c.Held = g.At, slices.Clone(g.Charges)
	}
	err := p.store.Reserve(ctx, r.stack, calls[:], grants[:])
	p.way.Took(time.Since(asked))

	p.waiters.mu.Lock()
	defer p.waiters.mu.Unlock()
	defer func() { r.woken = false }()
	p.answered(r, &calls[0], &grants[0], asked, err)
	r.moved()
	if q := r.queue; q != nil {
		p.passIdle(q)
	}
}

// answered applies the store's answer to a reservation that is moving. The caller holds pacer.waiters.mu.
func (p *Pacer) answered(r *Reservation, call *store.Call, grant *store.Grant, asked time.Time, err error) {
	p.dropLease(r) // its permits were given back with its slot
	switch {
	case err != nil:
		r.state, r.err = givenBack, p.storeError("reserve", err)
		p.usage.Leave(&r.tracked, &r.call[0])
		r.leaveQueue()
	case !grant.OK && !grant.Queued:
		p.usage.Leave(&r.tracked, &r.call[0])
		r.leaveQueue()
		r.state, r.grant[0] = givenBack, *grant
		e := p.notYet(r)
		if e.Waited = r.call[0].MaxWait - call.MaxWait; e.MaxWait >= Forever {
			e.Waited = 0
		}
		r.err = e
	default:
		r.grant[0], r.requested = *grant, asked
		p.granted(r)
		if r.queue != nil {
			p.admit(r.queue) // its slot may be nearer than it was
		}
	}
}

// wake makes a queued call ask again now.
func (s *waiterSet) wake(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.queued[id]; r != nil {
		if q := r.queue; q != nil && r.isQueued() {
			if i := slices.IndexFunc(q.out, (*Reservation).isQueued); q.out[i] != r {
				s.swap(q.out[i], r) // it is the turn of the first
				r = q.out[i]
			}
		}
		s.retry(r)
		return
	}
	s.earlyWakes[s.earlyWake%len(s.earlyWakes)] = id
	s.earlyWake++
}

// wasWoken reports whether a call was woken before this process knew that it is queued. The caller holds mu.
func (s *waiterSet) wasWoken(r *Reservation) bool {
	return r.grant[0].Queued && slices.Contains(s.earlyWakes[:], r.call[0].ID)
}

// retry makes a call ask again now, if it is queued. The caller holds mu.
func (s *waiterSet) retry(r *Reservation) {
	if r.state == reserved && r.moving != nil {
		r.woken = true
	}
	if r.state != reserved || r.moving != nil || !r.grant[0].Queued {
		return
	}
	r.due = time.Now()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// retryAll makes all queued calls ask again: a wake-up may not have been received.
func (s *waiterSet) retryAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.queued {
		s.retry(r)
	}
}

// waitedTooLong returns the error for a call whose turn has not come in time; nil as long as it may come.
func (r *Reservation) waitedTooLong(now time.Time) error {
	if !r.grant[0].Queued || r.latest.IsZero() || now.Before(r.latest) {
		return nil
	}
	return r.pacer.notYet(r)
}

// leaveStoreQueue gives up a position in the store's queue.
func (p *Pacer) leaveStoreQueue(r *Reservation) {
	var limits []store.Limit
	for i := range r.stack.Limits {
		if r.stack.Limits[i].Spec.HasQueue() {
			limits = append(limits, r.stack.Limits[i])
		}
	}
	p.leases.Leave(r.call[0].ID, limits)
}
