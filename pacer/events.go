package pacer

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

// The events of hooks. Without hooks, no event is made.

// newTelemetry returns the dispatcher that calls the hooks of a Pacer; nil if there are none.
func newTelemetry(hooks []*Hooks) *telemetry.Dispatcher[Hooks] {
	return telemetry.New(hooks, func(h *Hooks) func(int64) { return h.Dropped })
}

// A binding is what a call waits for, as its owner sees it: which limit, and why.
type binding struct {
	binds  int32 // as Grant.Binds
	paused bool
}

// waitsFor returns the index of the limit that a reservation waits for; −1 if it waits for none.
func (r *Reservation) waitsFor() int {
	if i := int(r.binding.binds); i < len(r.stack.Limits) {
		return max(-1, i)
	}
	return -1
}

// waited returns for how long the reservation has waited; 0 if it did not.
func (r *Reservation) waited() time.Duration {
	if r.since == 0 {
		return 0
	}
	return time.Since(r.pacer.made) - r.since
}

// waiting records that the reservation is about to wait for a given time, as things are, and emits that if what it
// waits for has changed. The caller holds pacer.waiters.mu.
func (r *Reservation) waiting(ctx context.Context, now time.Time, wait time.Duration) {
	g, first := &r.grant[0], r.since == 0
	if first {
		r.since = now.Sub(r.pacer.made)
	}
	if first || g.Binds != store.BindsNothing { // a call that has its permit, and waits for its slot, waits for the same reason as before
		r.binding = binding{int32(g.Binds), g.Paused || g.Binds == store.BindsUpstream} //nolint:gosec // an index into a stack
	}
	d := r.pacer.telemetry
	if d == nil {
		return
	}
	// When a queued call asks again is of no interest; its position is.
	reason := waitReason{g.At, g.Ahead, r.binding}
	if g.Queued {
		reason.at = 0
	}
	if r.emitted != nil && r.emitted.reason == reason {
		return
	}
	if r.emitted == nil {
		r.emitted = &emitted{since: now}
	}
	e := r.pacer.waitOf(r)
	e.Queued, e.Ahead, e.At, e.Wait = g.Queued, g.Ahead, now, wait
	r.emitted.reason, r.emitted.last = reason, e
	telemetry.EmitCall(ctx, d, e, func(h *Hooks) func(context.Context, Waiting) { return h.Waiting })
}

// emitted is what hooks received of a call that waits.
type emitted struct {
	since  time.Time
	reason waitReason
	last   Waiting
}

// A waitReason is what causes an event when it changes.
type waitReason struct {
	at      store.Instant
	ahead   int64
	binding binding
}

// waitOf returns the event that describes which limit holds a reservation.
func (p *Pacer) waitOf(r *Reservation) Waiting {
	i := r.waitsFor()
	e := Waiting{Upstream: p.upstream, Cost: r.cost(i), Paused: r.binding.paused}
	if i >= 0 {
		e.Policy, e.Scope = r.stack.Limits[i].Policy, p.describe(&r.stack.Limits[i])
	}
	return e
}

// waitDone emits that a reservation no longer waits, and whether its call is admitted.
func (r *Reservation) waitDone(ctx context.Context, err error) {
	d := r.pacer.telemetry
	if d == nil {
		return
	}
	if before := r.emitted; before != nil {
		e := WaitDone{Waiting: before.last, Since: before.since, Took: r.waited(), Err: err}
		telemetry.EmitCall(ctx, d, e, func(h *Hooks) func(context.Context, WaitDone) { return h.WaitDone })
	}
	if err == nil {
		r.admitted(ctx)
	} else {
		r.pacer.refused(ctx, err)
	}
}

// admitted emits that a reservation's call is admitted.
func (r *Reservation) admitted(ctx context.Context) {
	d := r.pacer.telemetry
	if d == nil {
		return
	}
	e := Admitted{Upstream: r.pacer.upstream, Cost: r.call[0].Cost}
	if r.since != 0 {
		w := r.pacer.waitOf(r)
		e.Policy, e.Scope, e.Waited = w.Policy, w.Scope, r.waited()
	}
	telemetry.EmitCall(ctx, d, e, func(h *Hooks) func(context.Context, Admitted) { return h.Admitted })
}

// admittedNow emits that a call is admitted that did not have to wait.
func (p *Pacer) admittedNow(ctx context.Context, cost int64) {
	if p.telemetry != nil {
		e := Admitted{Upstream: p.upstream, Cost: cost}
		telemetry.EmitCall(ctx, p.telemetry, e, func(h *Hooks) func(context.Context, Admitted) { return h.Admitted })
	}
}

// refused emits an error that means that a call may not go. For any other error it emits nothing.
func (p *Pacer) refused(ctx context.Context, err error) {
	if p.telemetry == nil || !errors.Is(err, ErrRefused) {
		return
	}
	e := Refusal{Upstream: p.upstream, Err: err}
	if limit, ok := errors.AsType[*LimitError](err); ok {
		e.Policy, e.Scope, e.Wait = limit.Policy, limit.Scope, limit.Wait
	} else if scope, ok := errors.AsType[*ScopeError](err); ok {
		e.Policy = scope.Policy
	}
	telemetry.EmitCall(ctx, p.telemetry, e, func(h *Hooks) func(context.Context, Refusal) { return h.Refused })
}

// pausesChanged emits pauses and resumptions that are new to this process.
func (p *Pacer) pausesChanged(changes []store.Change) {
	if p.telemetry == nil {
		return
	}
	for i := range changes {
		c := &changes[i]
		e := Pause{Upstream: p.upstream, Policy: c.Policy, Scope: p.describe(&store.Limit{Policy: c.Policy, Scope: c.Scope})}
		if c.Kind == store.Paused {
			e.For = max(0, c.Until.Sub(c.Now))
			telemetry.Emit(p.telemetry, e, func(h *Hooks) func(Pause) { return h.Paused })
		} else {
			telemetry.Emit(p.telemetry, e, func(h *Hooks) func(Pause) { return h.Resumed })
		}
	}
}

// feedbackApplied emits what the store received of an upstream's feedback.
func (p *Pacer) feedbackApplied(ctx context.Context, stack *store.Stack, notes []store.Note) {
	if p.telemetry == nil {
		return
	}
	for i := range notes {
		n := &notes[i]
		e := FeedbackApplied{Upstream: p.upstream, Kind: n.Kind, For: n.For, Value: n.Value}
		if n.Kind == store.NoteRemaining {
			e.Value = n.Remaining
		}
		if n.Limit >= 0 {
			l := &stack.Limits[n.Limit]
			e.Policy, e.Scope = l.Policy, p.describe(l)
		}
		telemetry.EmitCall(ctx, p.telemetry, e, func(h *Hooks) func(context.Context, FeedbackApplied) { return h.FeedbackApplied })
	}
}

// requested emits a request to the store.
func (p *Pacer) requested(op string, calls int, took time.Duration, err error) {
	e := StoreRequest{Upstream: p.upstream, Op: op, Calls: calls, Took: took, Err: err}
	telemetry.Emit(p.telemetry, e, func(h *Hooks) func(StoreRequest) { return h.StoreRequest })
}

// failedOver emits and logs that the store is lost, or back.
func (p *Pacer) failedOver(c failover.Change) {
	p.storeLog.changed(c)
	if p.telemetry != nil {
		telemetry.Emit(p.telemetry, failoverEvent(p.upstream, p.outage, c), func(h *Hooks) func(Failover) { return h.Failover })
	}
}
