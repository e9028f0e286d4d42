package pacer

import (
	"context"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
)

// Allow charges the call if it may go now, and returns nil. Otherwise it charges nothing and returns at once a [*LimitError] that matches
// [ErrNotYet]. Its RetryAfter is how long to sleep before you try again. Allow returns the same errors as Wait. A permit of a call in
// flight returns when its lease runs out: use [Pacer.TryAcquire] to return it at once.
func (p *Pacer) Allow(ctx context.Context, opts ...Option) error {
	a, err := p.calls.Call(ctx, optionsOf(nil, opts))
	if err != nil || p.goesAtOnce(ctx, &a) {
		return err
	}
	a.MaxWait, a.Tracked = 0, false // nobody can report its answer
	c := &dispatch.Call{}
	if err := p.reserve(ctx, &a, c, nil, nil, nil); err != nil {
		return err
	}
	c.Go(ctx) // the slot is now: there is nothing to wait for and nothing to keep
	p.leases.LetRunOut(c.Lease())
	if a.Set.Observes {
		p.observer.Observe(ctx, &a, 0, 1)
	}
	return nil
}

// TryAcquire is [Pacer.Acquire] for callers that would rather drop a call than wait. If all policies admit the call now, permits
// included, TryAcquire charges it and returns its reservation: make the call now, and call [Reservation.Release] when it is over. The
// reservation counts as used: its Wait returns [ErrSpent], and its Cancel does nothing.
//
// Otherwise TryAcquire returns at once a [*LimitError] that matches [ErrNotYet]. Its RetryAfter is how long to sleep before you try
// again: the time until the next slot if that is known, or a tenth of a second if there is no permit. Nothing is charged, and the call is
// not queued: trying again does not improve its position. TryAcquire does not overtake queued calls: a permit or a slot that a queued
// call is about to get is not free. Under fair shares, it comes behind the queued calls of its tenant. In a lane, RetryAfter is the time
// until a waiting call would get its slot, and that slot is then still about 40 ms away: expect a second refusal.
//
// TryAcquire waits only for the store's reply, for as long as Config.StoreTimeout allows. It returns the same errors as Acquire: a
// [*LimitError] that matches [ErrNever] for a call that costs more than a policy ever admits at once, a [*ScopeError], a [*ConfigError],
// a [*StoreError], [ErrClosed], or the context's error. [MaxWait] makes no difference, and with a [NotBefore] above 0 the call is always
// refused.
func (p *Pacer) TryAcquire(ctx context.Context, opts ...Option) (*Reservation, error) {
	r, a, err := p.newReservation(ctx, opts)
	if err != nil {
		return nil, err
	}
	a.MaxWait = 0
	if err := r.reserve(ctx, &a); err != nil {
		return nil, err
	}
	r.call.Go(ctx)
	if a.Set.Observes {
		r.observed.Store(p.observer.Observe(ctx, &a, 0, 1))
	}
	return r, nil
}

// AllowAtMost is [Pacer.Allow] for many calls: it charges as many as may go now, at most n, and returns how many. Use it in a worker that
// takes as much as is available, such as one that fills a batch:
//
//	granted, err := p.AllowAtMost(ctx, int64(len(rows)))
//
// Each of these calls costs what the options say: 1, or [Cost] and [CostOf]. So n can also be the units of a single call. Each policy
// charges exactly what is granted, even if other processes ask at the same time. If none may go, AllowAtMost charges nothing and returns
// 0 and a [*LimitError] that matches [ErrNotYet], about the first of the calls. If some may go, the error is nil.
//
// It usually asks the store once. For n above 256, if free capacity is split up between reservations, it asks up to four times, and may
// then leave some of it unused. It never grants more than a burst or a window at once, and in a lane no more than the burst of the lane's
// part. These calls have no Reservation, so [Tracked] makes no difference, and neither does [MaxWait], and each holds its permit, if a
// policy counts calls in flight, until the lease runs out. Hooks receive one Admitted, with
// the cost of all of them.
//
// AllowAtMost returns the same errors as Allow, and a [*ConfigError] for n below 1. Its error matches [ErrNever] if not even one of the
// calls can ever go. If the context ends meanwhile, what was charged is given back.
func (p *Pacer) AllowAtMost(ctx context.Context, n int64, opts ...Option) (granted int64, err error) {
	if n < 1 {
		return 0, badNumber("AllowAtMost", n, "must be at least 1")
	}
	a, err := p.calls.Call(ctx, optionsOf(nil, opts))
	if err != nil {
		return 0, err
	}
	a.MaxWait = 0
	if granted, err = p.take(ctx, &a, n); err != nil {
		p.refused(ctx, err)
	}
	if err == nil && a.Set.Observes {
		p.observer.Observe(ctx, &a, 0, granted)
	}
	return granted, err
}

// take charges as many calls as may go now, at most n.
func (p *Pacer) take(ctx context.Context, a *binding.Ask, n int64) (int64, error) {
	if a.Set.Free && a.NotBefore == 0 {
		p.dispatcher.Freed(ctx, a.Cost, n)
		return n, nil
	}
	a.Which = binding.Enforced
	r, err := p.calls.RequestMany(a)
	if err != nil {
		return 0, err
	}
	r.Generation = a.Set.Generation
	var granted int64
	_, err = p.whileShared(ctx, a, func() (err error) {
		r.Call.NotBefore = a.NotBefore
		granted, err = p.dispatcher.Take(ctx, &r, n)
		return err
	})
	if granted == 0 && err == nil {
		a.Set = p.set()
		return p.take(ctx, a, n)
	}
	return granted, err
}

// goesAtOnce charges a call that need not wait, and reports whether it did: see [binding.Reader.AtOnce].
func (p *Pacer) goesAtOnce(ctx context.Context, a *binding.Ask) bool {
	if p.dispatcher.Queued() > 0 || !p.calls.AtOnce(a) {
		return false
	}
	if p.telemetry != nil {
		events{p}.Admitted(ctx, &store.Call{Cost: a.Cost}, a.Bindable(false), nil, 0, 0)
	}
	return true
}
