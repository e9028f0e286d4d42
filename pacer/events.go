package pacer

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/internal/warnings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// The events of hooks. Without hooks, no event is made.

// newTelemetry returns the dispatcher that calls the hooks of a Pacer; nil if there are none.
func newTelemetry(sets []*hooks.Set) *telemetry.Dispatcher[hooks.Set] {
	return telemetry.New(sets, func(h *hooks.Set) func(int64) { return h.Dropped })
}

// events receive the events of the packages below, and answer their queries about the Pacer.
type events struct{ *Pacer }

// waitOf returns the event that describes a wait.
func (e events) waitOf(w *dispatch.Wait) hooks.Waiting {
	one := hooks.Waiting{Upstream: e.upstream, Cost: w.Cost, Paused: w.Paused, Queued: w.Queued, Ahead: w.Ahead, At: w.At, Wait: w.For}
	if w.Limit != nil {
		one.Policy, one.Scope = readings.PolicyOf(w.Limit.Policy), e.set().Describe(w.Limit)
	}
	return one
}

// Waiting implements [dispatch.Events].
func (e events) Waiting(ctx context.Context, w *dispatch.Wait) {
	telemetry.EmitCall(ctx, e.telemetry, e.waitOf(w), func(h *hooks.Set) func(context.Context, hooks.Waiting) { return h.Waiting })
}

// WaitDone implements [dispatch.Events].
func (e events) WaitDone(ctx context.Context, last *dispatch.Wait, since time.Time, took time.Duration, err error) {
	done := hooks.WaitDone{Waiting: e.waitOf(last), Since: since, Took: took, Err: e.toUser(err)}
	telemetry.EmitCall(ctx, e.telemetry, done, func(h *hooks.Set) func(context.Context, hooks.WaitDone) { return h.WaitDone })
}

// Admitted implements [dispatch.Events].
func (e events) Admitted(ctx context.Context, call *store.Call, limits []store.Limit, limit *store.Limit, waited, late time.Duration) {
	one := hooks.Admitted{Upstream: e.upstream, Cost: call.Cost, Costs: e.costsOf(call, limits), Waited: waited, Late: late}
	if limit != nil {
		one.Policy, one.Scope = readings.PolicyOf(limit.Policy), e.set().Describe(limit)
	}
	telemetry.EmitCall(ctx, e.telemetry, one, func(h *hooks.Set) func(context.Context, hooks.Admitted) { return h.Admitted })
}

// Answered implements [dispatch.Events].
func (e events) Answered(ctx context.Context, took time.Duration) {
	one := hooks.Answered{Upstream: e.upstream, Took: took}
	telemetry.EmitCall(ctx, e.telemetry, one, func(h *hooks.Set) func(context.Context, hooks.Answered) { return h.Answered })
}

// costsOf returns what a call costs each policy. A lane's part costs what its policy does.
func (p *Pacer) costsOf(call *store.Call, limits []store.Limit) []hooks.PolicyCost {
	all := make([]hooks.PolicyCost, 0, len(limits))
	for i := range limits {
		l := &limits[i]
		one := hooks.PolicyCost{Policy: l.Policy, Scope: p.set().Describe(l), Cost: call.CostOf(i)}
		switch {
		case p.set().IsPart(l.Policy):
			continue
		case l.Spec.Algorithm == specs.Concurrency:
			one.Cost = 1
		}
		all = append(all, one)
	}
	return all
}

// settled emits the real costs that notes state.
func (p *Pacer) settled(ctx context.Context, stack *store.Stack, notes []store.Note) {
	if p.telemetry == nil {
		return
	}
	for i := range notes {
		n := &notes[i]
		l := &stack.Limits[n.Limit]
		if p.set().IsPart(l.Policy) || l.Spec.Algorithm == specs.Concurrency {
			continue
		}
		e := hooks.Settled{
			Upstream: p.upstream, PolicyCost: hooks.PolicyCost{Policy: l.Policy, Scope: p.set().Describe(l), Cost: n.Actual}, Charged: n.Cost,
		}
		telemetry.EmitCall(ctx, p.telemetry, e, func(h *hooks.Set) func(context.Context, hooks.Settled) { return h.Settled })
	}
}

// Refused implements [dispatch.Events].
func (e events) Refused(ctx context.Context, err error) { e.refused(ctx, e.toUser(err)) }

// PausesChanged implements [dispatch.Events].
func (e events) PausesChanged(news []store.Change) {
	for i := range news {
		c := &news[i]
		one := hooks.Pause{Upstream: e.upstream, Policy: readings.PolicyOf(c.Policy), Scope: e.set().Describe(&store.Limit{Policy: c.Policy, Scope: c.Scope})}
		if c.Kind == store.Paused {
			one.For = max(0, c.Until.Sub(c.Now))
			telemetry.Emit(e.telemetry, one, func(h *hooks.Set) func(hooks.Pause) { return h.Paused })
		} else {
			telemetry.Emit(e.telemetry, one, func(h *hooks.Set) func(hooks.Pause) { return h.Resumed })
		}
	}
}

// refused emits an error that means that a call may not go. It emits nothing for any other error, nor for a booking that is too early,
// which has a slot.
func (p *Pacer) refused(ctx context.Context, err error) {
	limit, refused := errors.AsType[*LimitError](err)
	if p.telemetry == nil || !refused || limit.Reason == TooEarly {
		return
	}
	e := hooks.Refusal{Upstream: p.upstream, Policy: limit.Policy, Scope: limit.Scope, Wait: limit.Wait, Err: err}
	if limit.Reason == NoScope {
		e.Scope = ""
	}
	telemetry.EmitCall(ctx, p.telemetry, e, func(h *hooks.Set) func(context.Context, hooks.Refusal) { return h.Refused })
}

// Unbound implements [readings.Events].
func (e events) Unbound(names []string) { e.policies.AddAllowances(names) }

// Applied implements [readings.Events]: it also keeps what the notes state.
func (e events) Applied(ctx context.Context, at store.Instant, stack store.Stack, notes []store.Note, changes []store.Change) {
	for i := range notes {
		n := &notes[i]
		one := hooks.FeedbackApplied{Upstream: e.upstream, Kind: n.Kind.String(), For: max(0, n.For), Value: n.Value, Source: n.Source}
		if n.Kind == store.NoteAnswer {
			if n.Remaining < 0 && n.Empties() == 0 && !n.Guessed {
				continue // no information
			}
			if one.Value = max(0, n.Remaining); n.Guessed {
				one.Source = hooks.SourceGuess
			}
		}
		l := &stack.Limits[n.Limit]
		one.Policy, one.Scope = readings.PolicyOf(l.Policy), e.set().Describe(l)
		if one.Long = e.reports.Memory.Keep(l.Key(), n, at); one.Long {
			e.log.Stated(warnings.Wait{Upstream: e.upstream, Policy: one.Policy, Scope: one.Scope, Source: one.Source, For: one.For}) //nolint:contextcheck // a line of the log is of no call
		}
		if e.telemetry != nil {
			telemetry.EmitCall(ctx, e.telemetry, one, func(h *hooks.Set) func(context.Context, hooks.FeedbackApplied) { return h.FeedbackApplied })
		}
	}
	e.dispatcher.Changed(ctx, changes)
}

// Requested implements [failover.Owner].
func (e events) Requested(op string, calls int, took time.Duration, err error) {
	one := hooks.StoreRequest{Upstream: e.upstream, Op: op, Calls: calls, Took: took, Err: err}
	telemetry.Emit(e.telemetry, one, func(h *hooks.Set) func(hooks.StoreRequest) { return h.StoreRequest })
}

// FailedOver implements [failover.Owner].
func (e events) FailedOver(c failover.Change) {
	e.log.Changed(c)
	telemetry.Emit(e.telemetry, hooks.Failover{
		Upstream: e.upstream, On: c.Lost, Never: c.Never, Outage: e.outage.text(), Processes: c.Processes, For: c.For, Err: c.Err, Dropped: c.Dropped,
	}, func(h *hooks.Set) func(hooks.Failover) { return h.Failover })
}

// Resumed implements [failover.Owner].
func (e events) Resumed(all []store.Change) { e.dispatcher.Changed(context.Background(), all) }

// Permits implements [failover.Owner].
func (e events) Permits() []readings.Report { return e.dispatcher.Leases.Held() }

// About implements [failover.Owner].
func (e events) About(now store.Instant, left bool) (a store.About, received func(versions int)) {
	a, delivered := e.process.About(now, left)
	return a, func(versions int) {
		delivered()
		if !left {
			e.versionLog.Seen(versions)
		}
	}
}
