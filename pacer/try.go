package pacer

import (
	"context"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
)

// Allow charges the call if it may go now, and returns nil. Otherwise it returns at once, without a charge, a
// [*LimitError] that matches [ErrNotYet] and whose RetryAfter is how long to sleep before asking again. It returns the same errors as
// Wait. So it refuses a call that a policy counts while it is in flight with a [*ConfigError]: use [Pacer.TryAcquire], which returns
// something to release.
func (p *Pacer) Allow(ctx context.Context, opts ...Option) error {
	a, err := p.newCall(ctx, opts)
	if err != nil || p.goesAtOnce(ctx, &a) {
		return err
	}
	a.maxWait = 0
	c := &waiters.Call{}
	if err := p.reserve(ctx, &a, c, nil, nil, nil); err != nil {
		return err
	}
	c.Go(ctx) // the slot is now: there is nothing to wait for and nothing to keep
	if a.set.Observes {
		p.observe(ctx, &a, 0, 1)
	}
	return nil
}

// TryAcquire is [Pacer.Acquire] for callers that would rather drop a call than wait. If the call may go now, as far as all of its
// policies are concerned, permits included, it is charged, and TryAcquire returns its reservation: go now, and call
// [Reservation.Release] when the call is over. The reservation was used: its Wait returns [ErrSpent], and its Cancel does nothing.
//
// Otherwise TryAcquire returns at once a [*LimitError] that matches [ErrNotYet]. Its RetryAfter says how long to sleep before asking
// again: until there is a slot, if that is known, and else, for want of a permit, a tenth of a second. Nothing is charged, and the call
// is not queued: it has no better position when it asks again. A permit or a slot that a queued call is about to get is not free: like any
// call that comes later, this one has its turn behind those that are queued already, under fair shares behind those of its tenant. In a
// lane, RetryAfter is when a call that waits would get its slot, which then is 40 ms away or so: expect a second refusal.
//
// TryAcquire waits for nothing but the store's answer, for as long as Config.StoreTimeout allows. It returns the same errors as Acquire:
// a [*LimitError] that matches [ErrNever] for a call that costs more than a policy ever admits at once, a [*ScopeError], a
// [*ConfigError], a [*StoreError], [ErrClosed], or the context's error. [MaxWait] makes no difference to it, and with a [NotBefore]
// above 0 no call may go now.
func (p *Pacer) TryAcquire(ctx context.Context, opts ...Option) (*Reservation, error) {
	r := newReservation()
	a, err := r.read(ctx, p, opts)
	if err != nil {
		return nil, err
	}
	a.maxWait, a.permits = 0, true
	if err := p.reserve(ctx, &a, &r.call, nil, &r.first, &r.asked); err != nil {
		return nil, err
	}
	r.call.Go(ctx)
	if a.set.Observes {
		r.observed.Store(p.observe(ctx, &a, 0, 1))
	}
	return r, nil
}

// AllowAtMost is [Pacer.Allow] for many calls: it charges as many as may go now, at most n, and returns how many. It is for workers that
// take what there is, such as one that fills a batch:
//
//	granted, err := p.AllowAtMost(ctx, int64(len(rows)))
//
// Each of these calls costs what the options say: 1, or [Cost] and [CostOf]. So n may as well be units of one call of that cost. Exactly
// what is granted is charged, by each policy, also when other processes ask at the same time. If none may go, AllowAtMost returns 0 and a
// [*LimitError] that matches [ErrNotYet], about the first of them, and nothing is charged. If some may go, the error is nil.
//
// It asks the store once as a rule. For n above 256 it asks up to four times if what is free lies in pieces between reservations: a few
// may then be left. It never grants more than a burst or a window at once, and in a lane no more than the burst of the lane's part.
// There is no [Reservation] of these calls, so [Tracked] makes no difference, and neither does [MaxWait]. [Hooks] receive one Admitted, with
// what all of them cost.
//
// AllowAtMost returns the same errors as Allow: a [*ConfigError] for n below 1, and if a policy counts calls in flight, because nothing
// could be released: use [Pacer.TryAcquire]. [ErrNever] is for calls of which not even one can ever go. If the context ends meanwhile,
// what was charged is given back.
func (p *Pacer) AllowAtMost(ctx context.Context, n int64, opts ...Option) (granted int64, err error) {
	if n < 1 {
		return 0, badNumber("AllowAtMost", n, "must be at least 1")
	}
	a, err := p.newCall(ctx, opts)
	if err != nil {
		return 0, err
	}
	a.maxWait = 0
	if granted, err = p.take(ctx, &a, n); err != nil {
		p.refused(ctx, err)
	}
	if err == nil && a.set.Observes {
		p.observe(ctx, &a, 0, granted)
	}
	return granted, err
}

// take charges as many calls as may go now, at most n.
func (p *Pacer) take(ctx context.Context, a *ask, n int64) (int64, error) {
	if a.set.Free && a.notBefore == 0 {
		p.waiters.Freed(ctx, a.cost, n)
		return n, nil
	}
	a.which = binding.Enforced
	limits, err := p.bind(a, nil)
	if err != nil {
		return 0, err
	}
	limits, costs, err := p.costs(a, a.share(limits), nil)
	if err != nil {
		return 0, err
	}
	if _, err := p.awaitStore(ctx, a); err != nil {
		return 0, err
	}
	r := waiters.Request{Limits: limits, Call: store.Call{Cost: a.cost, Costs: costs, NotBefore: a.notBefore}}
	if a.set.HasQueues {
		if err := p.queueUp(a, &r); err != nil {
			return 0, err
		}
	}
	return p.waiters.Take(ctx, &r, n)
}

// goesAtOnce charges a call that need not wait, and reports whether it did. It is a fast path for the most common
// request to a store in memory: see [store.Direct]. A pause that this process received is in the store already.
func (p *Pacer) goesAtOnce(ctx context.Context, a *ask) bool {
	if p.direct == nil || a.set.Observes || a.set.Free || a.set.HasQueues || a.set.Varies || a.tracked || a.byPolicy || a.notBefore > 0 || p.waiters.Queued() > 0 {
		return false
	}
	call := store.Admission{Cost: a.cost}
	for i := range a.set.Limits {
		l := &a.set.Limits[i]
		scope, missing := l.ScopeOf(a.scope)
		if missing != "" && l.Optional {
			continue
		}
		if missing != "" || a.cost > l.Spec.Limit || call.Len == store.MaxAdmission {
			return false
		}
		call.Limits[call.Len] = store.Bound{Limit: l.Prepared, Scope: scope}
		call.Len++
	}
	if call.Len == 0 || !p.direct.Admit(call) {
		return false
	}
	if p.telemetry != nil {
		waitEvents{p}.Admitted(ctx, &store.Call{Cost: a.cost}, a.set.Bindable(a.lane, false, a.scope), nil, 0, 0)
	}
	return true
}
