package pacer

import (
	"context"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/store"
)

// TryAcquire is [Pacer.Acquire] for callers that would rather drop a call than wait. If all policies admit the call now, permits included,
// it charges the call and returns its reservation: make the call now, and call [Reservation.Release] when it is over. The reservation
// counts as used: its Wait returns [ErrSpent], and its Cancel does nothing.
//
// Otherwise TryAcquire returns at once a [*LimitError] that matches [ErrNotYet]. [RetryAfter] returns how long to sleep before you try
// again: until the next slot if that is known, or a tenth of a second without a permit. Nothing is charged, and the call is not queued:
// trying again does not improve its position. TryAcquire does not overtake queued calls: a permit or a slot that a queued call is about to
// get is not free. Under fair shares, it comes behind the queued calls of its tenant. In a lane, RetryAfter is the time until a waiting
// call would get its slot, which is then still about 40 ms away: expect a second refusal.
//
// TryAcquire waits only for the store's reply, at most Config.StoreTimeout. It returns the same errors as Acquire.
//
// If you keep no reservation, [Pacer.Wait] with a [MaxWait] of 0 does the same, and its permit returns when the lease runs out.
func (p *Pacer) TryAcquire(ctx context.Context, opts ...TryOption) (*Reservation, error) {
	r, a, err := newReservation(ctx, p, opts)
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

// goesAtOnce charges a call that need not wait, and reports whether it did: see [binding.Reader.AtOnce].
func (p *Pacer) goesAtOnce(ctx context.Context, a *binding.Ask) bool {
	if p.dispatcher.Queued() > 0 || !p.calls.AtOnce(a) {
		return false
	}
	meter := p.process.Meter
	if p.telemetry == nil && !meter.IsOn() {
		return true
	}
	call, limits := store.Call{Cost: a.Cost, Caller: a.Caller}, a.Bindable(false)
	if meter.IsOn() {
		meter.Add(limits, &call, p.direct.Now(), store.BindsNothing, 0)
	}
	if p.telemetry != nil {
		events{p}.Admitted(ctx, &call, limits, nil, 0, 0)
	}
	return true
}
