package pacer

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/observe"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Reservation is a slot that was granted and charged. Use it once: call [Reservation.Wait], or sleep for [Reservation.Delay] and make the
// call, or call [Reservation.Cancel]. It is safe for concurrent use.
//
// Only Wait moves a reservation: behind a pause that is reported while it waits, to a new slot if it wakes far too late, or forward in a
// queue.
type Reservation struct {
	pacer    *Pacer
	call     binding.Reservation
	observed atomic.Pointer[observe.Observation] // by the policies that are observed; nil if none is
	made     atomic.Bool                         // Acquire returned it again, or the call is over
	pool     *Pool                               // its credentials may make the call; nil if none
}

// newReservation reads a call's request for its caller.
func newReservation[O any](ctx context.Context, p *Pacer, opts []O) (*Reservation, binding.Ask, error) {
	r := &Reservation{pacer: p}
	r.call.Init()
	a, err := read(ctx, p, &r.call.Requested, opts)
	a.Permits = true // its caller can give them back
	return r, a, err
}

// reserve charges the earliest slot at which the call may go.
func (r *Reservation) reserve(ctx context.Context, a *binding.Ask) error {
	return r.pacer.reserve(ctx, a, &r.call.Call, nil, &r.call.First, &r.call.Requested)
}

// Delay returns how long from now until the call may go, at least 0. While a call moves to another slot, such as behind a pause, Delay is
// an estimate. For a call that is queued in the store, it is how long until [Reservation.Wait], which such a call needs, polls the store
// again.
func (r *Reservation) Delay() time.Duration { return r.call.Delay() }

// Queued reports whether the call has no slot yet, because it is queued, or is moving to another slot.
func (r *Reservation) Queued() bool { return r.call.View().Due.IsZero() }

// Cancel gives the slot back, so that another call can have it. Once the slot has come, a reservation without a running Wait counts as
// used, because you may have slept for [Reservation.Delay] and made the call. Cancel then only releases its permits, so you can defer
// Cancel. If you did not make the call, use [Reservation.NotUsed]. Cancel does nothing if the reservation was used or cancelled before. It
// uses the context's values, but not its deadline or cancellation: the charge is given back even if the context is done. It returns a
// [*StoreError] if the store fails, in which case the slot is lost.
func (r *Reservation) Cancel(ctx context.Context) error {
	err := r.call.Cancel(ctx)
	r.notGoing(ctx)
	return r.pacer.toUser(err)
}

// NotUsed is [Reservation.Cancel] for a call that you did not make and will not make, although its slot may have come. The elapsed part of
// the charge stays. NotUsed does nothing after [Reservation.Wait] has returned nil: that call counts as made.
func (r *Reservation) NotUsed(ctx context.Context) error {
	err := r.call.NotUsed(ctx)
	r.notGoing(ctx)
	return r.pacer.toUser(err)
}

// Wait sleeps until the call may go, and returns nil: make the call now. If the context ends or the Pacer is closed first, Wait gives the
// slot back and returns the context's error or [ErrClosed]. If the reservation is being moved at that moment, its slot is given back after
// Wait has returned. If a pause is reported meanwhile that ends after the slot, the reservation moves behind the pause. If the process was
// suspended and wakes long after the slot (see Config.MaxLate), it moves to the next free slot. If that is further away than the deadline
// or MaxWait allows, Wait returns a [*LimitError]. If no credential of the reservation's [Pool] is in use any more, it returns a
// [*LimitError] for [NoCredential]. If the reservation was used or cancelled before, Wait returns [ErrSpent].
func (r *Reservation) Wait(ctx context.Context) error {
	err := r.pool.whileInUse(ctx, r.call.Wait)
	switch {
	case err == nil:
		r.goes(ctx)
	case err != ErrSpent: //nolint:errorlint // as it is
		r.observed.Load().Cancel(ctx, false)
	}
	return r.pacer.toUser(err)
}

// goes picks the credential of a call that goes now, and records once what the observed policies would have done to it.
func (r *Reservation) goes(ctx context.Context) {
	r.call.Pick()
	if r.observed.Load() == nil && r.call.Observes() {
		a := r.call.Chosen()
		r.observed.Store(r.pacer.observer.Observe(ctx, &a, 0, 1))
	}
}

// notGoing gives back the charges of observed policies, and their permits, for a call that was given back.
func (r *Reservation) notGoing(ctx context.Context) {
	r.observed.Load().Cancel(ctx, r.call.View().Gone)
}

// Release records that the call is over, so that other calls can have its permits. Call it on every path: it does nothing if the
// reservation has no permits or was released before. It does not block on a shared store. Without Release, permits are renewed until the
// Pacer is closed: see [Reservation.WhileAlive].
func (r *Reservation) Release() {
	r.made.Store(true)
	r.pacer.dispatcher.Leases.Release(r.call.Lease())
	r.observed.Load().Release()
}

// HasPermits reports whether the call has permits that [Reservation.Release] returns, those that observed policies predict included.
func (r *Reservation) HasPermits() bool {
	return r.pacer.dispatcher.Leases.Holds(r.call.Lease()) || r.observed.Load() != nil
}

// Context returns a context for the work of this call. It carries the call until [Reservation.Release]. A call made under it is nested: it
// is refused if it [WaitsForItself], and with [Nested] it takes no permit. Call Context when the call may go: after Wait has returned nil,
// or after [Pacer.Acquire] or [Pacer.TryAcquire]. [Pacer.Do] and package transport do this for you.
//
// Work that continues in the background after the call is not nested: give it the original context. If the call holds no permit, Context
// returns ctx itself.
func (r *Reservation) Context(ctx context.Context) context.Context {
	return r.pacer.calls.WithCall(ctx, &r.call.Call)
}

// reservationKey is the context key of a reservation for the next call of a Pacer.
type reservationKey struct{ p *Pacer }

// WithReservation returns a context under which the next call goes by r, and is not charged again. Use it if you have redeemed a booking,
// and your call is made by package transport, grpcpacer or awspacer, or by [Pacer.Acquire] or [Pacer.Do]: they acquire r, once. So do
// [Pool.Acquire] and a transport with a pool, if r is of [Pool.Redeem]. The cost is that of r, until it is settled. Each call after the
// first, such as a retry, is charged as usual.
//
// A call is also charged as usual, and r released, if it is of another Pacer or pool, if its scopes or its lane give it other limits than
// those of r, if r may not go yet, was released or cancelled, or if its slot passed too long ago (see Config.MaxLate). WithReservation
// returns ctx itself if r is nil.
func WithReservation(ctx context.Context, r *Reservation) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, reservationKey{r.pacer}, r)
}

// carried returns the reservation that a context carries for a call, of a pool or nil; nil if the call needs its own.
func (p *Pacer) carried(ctx context.Context, opts []Option, l *Pool) *Reservation {
	r, _ := ctx.Value(reservationKey{p}).(*Reservation)
	if r == nil || r.pool != l || r.made.Load() || !r.call.View().Gone || ctx.Err() != nil || p.isClosed() {
		return nil
	}
	chosen := r.call.Chosen()
	if l != nil {
		for _, name := range l.of.Scopes {
			opts = append(slices.Clip(opts), Scope(name, chosen.Scope(name)))
		}
	}
	a, err := p.newAsk(ctx, optionsOf(nil, opts))
	if err != nil || !p.calls.SameLimits(a, chosen) || !r.made.CompareAndSwap(false, true) {
		return nil
	}
	if r.call.View().Overdue {
		r.Release()
		return nil
	}
	return r
}

// WhileAlive sets a function that reports whether the call is still running, until [Reservation.Release]. If it returns false when a lease
// is due for renewal, the lease is not renewed, and the permit is free when it runs out. The function is called from another goroutine and
// must not block: until it returns, the call counts as running. So it does if the function panics, which slog's default logger logs. Defaults to
// one that always returns true.
func (r *Reservation) WhileAlive(alive func() bool) {
	r.pacer.dispatcher.Leases.WhileAlive(r.call.Lease(), alive)
}

// Settle sets what the call actually cost, if you learn that only afterwards, as with tokens or points. A [policies.Cost] without a Policy
// is for every policy that has none of its own; Learned makes no difference. If the call was charged too much, Settle gives the difference
// back to calls that reserve a slot afterwards; those that have one keep theirs, so a rate whose burst is no larger than the estimate
// cannot use it. If it was charged too little, Settle charges the difference, even beyond the limits, and later calls wait for it. A policy
// that is not mentioned keeps its charge. A policy for which the call cost 0 is charged now if a cost names it. Settle a reservation once,
// after Wait: it returns [ErrSpent] if it was settled or cancelled before. It returns a [*ConfigError] for a cost that is negative or above
// specs.MaxLimit and for an unknown policy, and a [*StoreError] if the store fails.
func (r *Reservation) Settle(ctx context.Context, costs ...policies.Cost) error {
	p := r.pacer
	set, known := r.call.Settling()
	options := make([]binding.Option, len(costs))
	for i, c := range costs {
		options[i] = binding.Option{Kind: binding.CostOf, Name: c.Policy, N: c.N}
		if c.Policy == "" {
			options[i].Kind = binding.Cost
		}
	}
	actual, err := p.calls.Settlement(set, options)
	if err != nil {
		return err
	}
	var free []store.Limit
	for _, l := range known.Free {
		if actual.Names(l.Policy) {
			free = append(free, l)
		}
	}
	stack, notes, err := r.call.Settle(ctx, free, actual.CostOf)
	if err != nil {
		return err
	}
	o := r.observed.Load()
	for _, l := range slices.Concat(known.Lessons, o.Lessons()) {
		p.calls.Learner.Learn(l.Key, actual.CostOf(l.Key.Policy), l.How)
	}
	o.Settle(ctx, actual)
	if len(notes) == 0 {
		return nil
	}
	p.settled(ctx, &stack, notes)
	if _, _, err := p.store.Report(ctx, stack, notes); err != nil {
		return p.storeError(inside.OpReport, err)
	}
	p.dispatcher.Freed(stack.Limits, func(i int) bool {
		return slices.ContainsFunc(notes, func(n store.Note) bool { return n.Limit == i && n.Actual < n.Cost })
	})
	return nil
}

// spares are calls of plain Waits that are over. Their callers never saw them, so the same Pacer can use them again.
type spares struct {
	off  bool      // the store is one that could keep what it is given
	pool sync.Pool // of *spare
}

// A spare is a call and room for its limits.
type spare struct {
	binding.Requested

	call   dispatch.Call
	limits [store.FewLimits]store.Limit
}

// get returns a call whose caller will not see it.
func (s *spares) get() *spare {
	if one, ok := s.pool.Get().(*spare); ok {
		return one
	}
	return new(spare)
}

// put takes back a call that went at its first slot and that no other goroutine has. No Report or Settle can come, because the caller has
// no handle.
func (s *spares) put(one *spare) {
	if s.off || !one.call.IsReusable() {
		return
	}
	one.Forget()
	one.call.Reset()
	one.limits = [store.FewLimits]store.Limit{}
	s.pool.Put(one)
}
