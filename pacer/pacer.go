package pacer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/bookings"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/observe"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/internal/warnings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Pacer paces the calls to one upstream. Make one with [New]. It is safe for concurrent use.
//
// Most callers should use [Pacer.Do], or [Pacer.Wait] if answers state no limits. Use [Pacer.Reserve] to do something else while the call
// waits, [Pacer.Book] for a job that a queue keeps until its slot, and [Pacer.TryAcquire] if you would rather drop a call than wait.
type Pacer struct {
	upstream string
	store    store.Store
	direct   store.Direct // the store, if it is one
	member   store.Member // the store, if it is one
	maxWait  time.Duration
	maxPause time.Duration
	outage   Outage

	telemetry *telemetry.Dispatcher[hooks.Set] // nil if there are no hooks
	log       *warnings.Store                  // nil if hooks log what it would

	versionLog *warnings.Versions // of a store that is shared

	policies *binding.Policies
	calls    *binding.Reader // reads what calls request

	process  *usage.Process // what operators see of this process
	observer *observe.Observer

	dispatcher *dispatch.Dispatcher
	reports    *readings.Reporter
	bookings   *bookings.Bookings
	spares     spares
}

// Wait blocks until the call may go, and returns nil: make the call now. The call costs 1, unless [Cost] sets another cost. If the
// upstream's answer can state limits, a 429 included, use [Pacer.Do] or [Pacer.Acquire], which know which call it answers.
//
// A policy that counts calls in flight counts this one until its lease runs out, after two thirds of [policies.Policy.Lease] or the whole
// of it, because the Pacer does not know when the call is over. Use [Pacer.Acquire] or [Pacer.Do] to return the permit at once, and for
// calls that last longer.
//
// Otherwise the call may not go, and its slot, if it had one, was given back. Wait then returns
//
//   - a [*LimitError], at once, if the call's slot lies beyond MaxWait or the context's deadline, or for another [Reason];
//   - the context's error if the context ends first, or [ErrClosed] if the Pacer is closed first;
//   - a [*StoreError] if the store fails, and may have charged the call. A [store.Shared] causes one only if Config.Outage is RefuseCalls,
//     if the store is not set up correctly, or if it has never answered this process while the call could wait: see
//     Config.Processes.
func (p *Pacer) Wait(ctx context.Context, opts ...Option) error {
	if p.direct != nil {
		var requested []binding.Option
		if len(opts) > 0 { // most calls have none
			var few [fewOptions]binding.Option
			requested = optionsOf(few[:0], opts)
		}
		a := binding.Ask{Options: requested}
		if err := p.calls.CallInto(ctx, &a); err != nil || p.goesAtOnce(ctx, &a) {
			return err
		}
	}
	w := p.spares.get()
	a, err := read(ctx, p, &w.Requested, opts)
	if err != nil {
		return err
	}
	a.Tracked = false // nobody can report its answer
	if a.MaxWait == 0 {
		return p.goNow(ctx, &a)
	}
	a.Waits = true
	if err := p.reserve(ctx, &a, &w.call, w.limits[:0], nil, &w.Requested); err != nil {
		return err
	}
	if err := w.call.Wait(ctx); err != nil {
		return p.toUser(err)
	}
	if w.Observes() {
		a = w.Now()
		p.observer.Observe(ctx, &a, 0, 1)
	}
	if lease := w.call.Lease(); lease != nil {
		p.dispatcher.Leases.LetRunOut(lease)
	} else {
		p.spares.put(w)
	}
	return nil
}

// goNow charges a call that does not wait.
func (p *Pacer) goNow(ctx context.Context, a *binding.Ask) error {
	c := &dispatch.Call{}
	if err := p.reserve(ctx, a, c, nil, nil, nil); err != nil {
		return err
	}
	c.Go(ctx) // the slot is now: there is nothing to wait for and nothing to keep
	p.dispatcher.Leases.LetRunOut(c.Lease())
	if a.Set.Observes {
		p.observer.Observe(ctx, a, 0, 1)
	}
	return nil
}

// Acquire is [Pacer.Wait] for calls that a policy counts while they are in flight, and for calls whose answers you report. It blocks until
// the call may go, and returns its reservation: make the call now, and call [Reservation.Release] when it is over, which does nothing if no
// policy counts calls in flight. With [Tracked], pass the answer's feedback to [Reservation.Report], as [Pacer.Do] does. The context bounds
// the wait, not the call. Acquire returns the same errors as Wait. To detect a call that [WaitsForItself], make the work of the call use
// the context that [Reservation.Context] returns.
func (p *Pacer) Acquire(ctx context.Context, opts ...Option) (*Reservation, error) {
	if r := p.carried(ctx, opts, nil); r != nil {
		return r, nil
	}
	r, a, err := newReservation(ctx, p, opts)
	if err != nil {
		return nil, err
	}
	a.Waits, a.Untried = true, true
	if err := r.reserve(ctx, &a); err != nil {
		return nil, err
	}
	if err := r.Wait(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Do is [Pacer.Acquire] for a call that is a function: it waits until the call may go, calls the function, and reports the limits that the
// upstream stated, as [Reservation.Report] does. The call is over when the function returns or panics. The reading comes from a profile, or
// you make it by hand: see [policies.Reading]. The zero Reading states no limits. Do applies the reading even if the function also returns
// an error, or the context has ended.
//
// The function's context carries the call while it holds a permit: see [Reservation.Context].
//
// If the call is not made, Do returns an error of Acquire. Otherwise it returns the function's error unchanged, or else what is wrong with
// the reading, such as a policy that the stack does not have. Only hooks receive it if the store does not receive the reading.
//
// Do does not retry. To retry a call that the upstream refused, call Do again, with [NotBefore] and the wait that the upstream requested.
// Unless the refusal is stray, all other calls of that limit wait, too.
func (p *Pacer) Do(ctx context.Context, call func(context.Context) (policies.Reading, error), opts ...Option) (err error) {
	_, err = Do(ctx, p, func(ctx context.Context, _ *Reservation) (struct{}, policies.Reading, error) {
		reading, err := call(ctx)
		return struct{}{}, reading, err
	}, opts...)
	return err
}

// Do is [Pacer.Do] for a function that also returns a value, and that needs the call's reservation, for [Reservation.Settle] or
// [Reservation.Credential]. by is a [*Pacer] or a [*Pool].
func Do[T any](ctx context.Context, by interface {
	Acquire(ctx context.Context, opts ...Option) (*Reservation, error)
}, call func(context.Context, *Reservation) (T, policies.Reading, error), opts ...Option,
) (result T, err error) {
	r, err := by.Acquire(ctx, append(slices.Clip(opts), Tracked())...)
	if err != nil {
		return result, err
	}
	defer r.Release()
	var reading policies.Reading
	defer func() { // also if the function panics: then nothing was read
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dispatch.Timeout)
		defer cancel()
		wrong := r.Report(ctx, reading.Feedback...)
		if _, failed := errors.AsType[*StoreError](wrong); err == nil && !failed && !errors.Is(wrong, ErrClosed) {
			err = wrong
		}
	}()
	result, reading, err = call(r.Context(ctx), r)
	return result, err
}

// Reserve charges the earliest slot at which the call may go, and returns it without waiting. Then call [Reservation.Wait], or sleep for
// [Reservation.Delay] and make the call. If you do not make the call, give the slot back: with [Reservation.Cancel] before the slot, with
// [Reservation.NotUsed] at any time. Reserve returns the same errors as Wait, except those about calls in flight.
//
// A call that is queued, for a permit, in a lane or for its fair share, has no slot yet. Call [Reservation.Wait] soon: without it, the call
// loses its position after some seconds. If a policy counts calls in flight, always call Wait, which gets the permit if the slot is in the
// future, and [Reservation.Release] when the call is over.
func (p *Pacer) Reserve(ctx context.Context, opts ...Option) (*Reservation, error) {
	r, a, err := newReservation(ctx, p, opts)
	if err != nil {
		return nil, err
	}
	if err := r.reserve(ctx, &a); err != nil {
		return nil, err
	}
	if a.Set.Observes && !r.Queued() { // a queued call is waited for
		r.observed.Store(p.observer.Observe(ctx, &a, r.Delay(), 1))
	}
	return r, nil
}

// read reads a call that may wait, and has k remember it, so that the caller's options need not be on the heap.
func read[O any](ctx context.Context, p *Pacer, k *binding.Requested, opts []O) (binding.Ask, error) {
	k.Options = optionsOf(k.Options[:0], opts)
	return k.Read(ctx, p.calls)
}

// reserve charges the earliest slot at which a call may go, for c. room is for its limits, s for what its settlement needs, nil if it is
// not settled, and k for its request, nil if it does not wait. If the store's answer brings other policies, a call that goes at once reserves
// once more by these.
func (p *Pacer) reserve(ctx context.Context, a *binding.Ask, c *dispatch.Call, room []store.Limit, s *binding.Settling, k *binding.Requested) error {
	for {
		err := p.reserveBy(ctx, a, c, room, s, k)
		if now := p.set(); err == nil && a.MaxWait == 0 && now != a.Set {
			_ = c.NotUsed(ctx)
			*c, room, a.Set = dispatch.Call{}, nil, now
			continue
		}
		if err != nil {
			p.refused(ctx, err)
		}
		return err
	}
}

func (p *Pacer) reserveBy(ctx context.Context, a *binding.Ask, c *dispatch.Call, room []store.Limit, s *binding.Settling, k *binding.Requested) error {
	if k != nil { // other policies may have scopes
		a.CarryAll(ctx)
	}
	if a.Set.Free {
		a.ChooseAny()
		if k != nil {
			k.Keep(a, s)
		}
		return p.toUser(p.dispatcher.Free(ctx, c, &store.Call{Cost: a.Cost, NotBefore: a.NotBefore, MaxWait: a.MaxWait}))
	}
	a.Which = binding.Enforced
	r, err := p.calls.Request(a, room, s)
	if err != nil {
		return err
	}
	if k != nil {
		k.Keep(a, s)
		r.Binder = k
	}
	r.WillWait, r.Untried, r.Generation = a.Waits, a.Untried, a.Set.Generation
	most := a.MaxWait
	waited, err := p.whileShared(ctx, a, func() error {
		r.Call.NotBefore, r.Call.MaxWait = a.NotBefore, a.MaxWait
		return p.dispatcher.Reserve(ctx, c, &r)
	})
	if e, ok := errors.AsType[*LimitError](err); ok && waited > 0 {
		e.MaxWait = min(e.MaxWait+waited, most)
		e.Waited = min(e.Waited+waited, e.MaxWait)
	}
	return err
}

// whileShared reserves by a function once this process can decide about the call, and again if it loses the store meanwhile and has no share without it.
// It returns how long the call waited for the store.
func (p *Pacer) whileShared(ctx context.Context, a *binding.Ask, ask func() error) (waited time.Duration, err error) {
	for {
		more, err := p.calls.Await(ctx, a)
		if waited += more; err != nil {
			return waited, p.toUser(err)
		}
		began := time.Now()
		err = p.toUser(ask())
		more = time.Since(began)
		a.Passed(more)
		if end, ends := ctx.Deadline(); !errors.Is(err, store.ErrNoShare) || a.MaxWait <= 0 || ends && !time.Now().Before(end) {
			return waited, err
		}
		waited += more
	}
}

// newAsk reads a call that will not be made, unless the Pacer is closed.
func (p *Pacer) newAsk(ctx context.Context, opts []binding.Option) (binding.Ask, error) {
	if p.isClosed() {
		return binding.Ask{}, ErrClosed
	}
	return p.calls.New(ctx, opts)
}

func (p *Pacer) isClosed() bool { return p.dispatcher.IsClosed() }

// Close wakes every waiting call, with [ErrClosed], waits until these calls have given their slots back, and refuses all further calls. It
// does not close the store. Calls in flight keep their permits until they release them or the leases run out. A [Reservation] that was not
// waited for keeps its slot, and can still be cancelled. Closing twice is harmless.
func (p *Pacer) Close() error {
	p.policies.Close()
	p.dispatcher.Close()
	p.observer.Close()
	p.dispatcher.Leases.Close()
	p.dispatcher.Drain()
	p.reports.Close()
	if p.member != nil {
		p.member.Close()
	}
	p.log.Close()
	p.versionLog.Close()
	p.telemetry.Close()
	return nil
}

// set returns the present policies.
func (p *Pacer) set() *binding.Set { return p.policies.Now() }

func init() { //nolint:gochecknoinits // package fleet is above this one, and reaches what callers do not see
	inside.Of = func(p any) *inside.Pacer { return p.(*Pacer).inside() } //nolint:forcetypeassert // package fleet gives nothing else
	inside.Slot = func(r any) (store.Instant, time.Duration) {
		of := r.(*Reservation) //nolint:forcetypeassert // as above
		v := of.call.View()
		return v.At, v.Slack
	}
}

// inside returns what operators use of the Pacer.
func (p *Pacer) inside() *inside.Pacer {
	return &inside.Pacer{
		Upstream: p.upstream, Store: p.store, MaxPause: p.maxPause, Policies: p.policies, Calls: p.calls, Dispatcher: p.dispatcher, Reports: p.reports,
		Registry: p.registry, StatusOf: p.statusOf,
	}
}
