package pacer

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/internal/warnings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// The events of hooks. Without hooks, no event is made.

// newTelemetry returns the dispatcher that calls the hooks of a Pacer; nil if there are none.
func newTelemetry(hooks []*Hooks) *telemetry.Dispatcher[Hooks] {
	return telemetry.New(hooks, func(h *Hooks) func(int64) { return h.Dropped })
}

// waitEvents are events of calls that wait, or could have had to.
type waitEvents struct{ *Pacer }

var _ waiters.Events = waitEvents{}

// waitOf returns the event that describes a wait.
func (e waitEvents) waitOf(w *waiters.Wait) Waiting {
	one := Waiting{Upstream: e.upstream, Cost: w.Cost, Paused: w.Paused, Queued: w.Queued, Ahead: w.Ahead, At: w.At, Wait: w.For}
	if w.Limit != nil {
		one.Policy, one.Scope = readings.PolicyOf(w.Limit.Policy), e.set().Describe(w.Limit)
	}
	return one
}

// Waiting implements [waiters.Events].
func (e waitEvents) Waiting(ctx context.Context, w *waiters.Wait) {
	telemetry.EmitCall(ctx, e.telemetry, e.waitOf(w), func(h *Hooks) func(context.Context, Waiting) { return h.Waiting })
}

// WaitDone implements [waiters.Events].
func (e waitEvents) WaitDone(ctx context.Context, last *waiters.Wait, since time.Time, took time.Duration, err error) {
	done := WaitDone{Waiting: e.waitOf(last), Since: since, Took: took, Err: err}
	telemetry.EmitCall(ctx, e.telemetry, done, func(h *Hooks) func(context.Context, WaitDone) { return h.WaitDone })
}

// Admitted implements [waiters.Events].
func (e waitEvents) Admitted(ctx context.Context, call *store.Call, limits []store.Limit, limit *store.Limit, waited, late time.Duration) {
	one := Admitted{Upstream: e.upstream, Cost: call.Cost, Costs: e.costsOf(call, limits), Waited: waited, Late: late}
	if limit != nil {
		one.Policy, one.Scope = readings.PolicyOf(limit.Policy), e.set().Describe(limit)
	}
	telemetry.EmitCall(ctx, e.telemetry, one, func(h *Hooks) func(context.Context, Admitted) { return h.Admitted })
}

// Answered implements [waiters.Events].
func (e waitEvents) Answered(ctx context.Context, took time.Duration) {
	one := Answered{Upstream: e.upstream, Took: took}
	telemetry.EmitCall(ctx, e.telemetry, one, func(h *Hooks) func(context.Context, Answered) { return h.Answered })
}

// costsOf returns what a call costs each policy. A lane's part of one costs what the policy does.
func (p *Pacer) costsOf(call *store.Call, limits []store.Limit) []PolicyCost {
	all := make([]PolicyCost, 0, len(limits))
	for i := range limits {
		l := &limits[i]
		one := PolicyCost{Policy: l.Policy, Scope: p.set().Describe(l), Cost: call.Cost}
		switch {
		case p.set().IsPart(l.Policy):
			continue
		case l.Spec.Algorithm == policies.Concurrency:
			one.Cost = 1
		case i < len(call.Costs):
			one.Cost = call.Costs[i]
		}
		all = append(all, one)
	}
	return all
}

// settled emits what a call really cost, of notes that say so.
func (p *Pacer) settled(ctx context.Context, stack *store.Stack, notes []store.Note) {
	if p.telemetry == nil {
		return
	}
	for i := range notes {
		n := &notes[i]
		l := &stack.Limits[n.Limit]
		if p.set().IsPart(l.Policy) || l.Spec.Algorithm == policies.Concurrency {
			continue
		}
		e := Settled{
			Upstream: p.upstream, PolicyCost: PolicyCost{Policy: l.Policy, Scope: p.set().Describe(l), Cost: n.Actual}, Charged: n.Cost,
		}
		telemetry.EmitCall(ctx, p.telemetry, e, func(h *Hooks) func(context.Context, Settled) { return h.Settled })
	}
}

// Refused implements [waiters.Events].
func (e waitEvents) Refused(ctx context.Context, err error) { e.refused(ctx, err) }

// PausesChanged implements [waiters.Events].
func (e waitEvents) PausesChanged(news []store.Change) {
	for i := range news {
		c := &news[i]
		one := Pause{Upstream: e.upstream, Policy: readings.PolicyOf(c.Policy), Scope: e.set().Describe(&store.Limit{Policy: c.Policy, Scope: c.Scope})}
		if c.Kind == store.Paused {
			one.For = max(0, c.Until.Sub(c.Now))
			telemetry.Emit(e.telemetry, one, func(h *Hooks) func(Pause) { return h.Paused })
		} else {
			telemetry.Emit(e.telemetry, one, func(h *Hooks) func(Pause) { return h.Resumed })
		}
	}
}

// refused emits an error that means that a call may not go. For any other error it emits nothing, nor for a booking that may not go yet: that
// has a slot.
func (p *Pacer) refused(ctx context.Context, err error) {
	if p.telemetry == nil || !errors.Is(err, ErrRefused) {
		return
	}
	if _, has := errors.AsType[*LaterError](err); has {
		return
	}
	e := Refusal{Upstream: p.upstream, Err: err}
	if limit, ok := errors.AsType[*LimitError](err); ok {
		e.Policy, e.Scope, e.Wait = limit.Policy, limit.Scope, limit.Wait
	} else if scope, ok := errors.AsType[*ScopeError](err); ok {
		e.Policy = scope.Policy
	} else if nested, ok := errors.AsType[*NestedError](err); ok {
		e.Policy, e.Scope = nested.Policy, nested.Scope
	}
	telemetry.EmitCall(ctx, p.telemetry, e, func(h *Hooks) func(context.Context, Refusal) { return h.Refused })
}

// feedbackApplied emits what the store received of an upstream's feedback at an instant, and keeps what that states.
func (p *Pacer) feedbackApplied(ctx context.Context, at store.Instant, stack store.Stack, notes []store.Note) {
	for i := range notes {
		n := &notes[i]
		e := FeedbackApplied{Upstream: p.upstream, Kind: n.Kind, For: max(0, n.For), Value: n.Value, Source: n.Source}
		if n.Kind == store.NoteAnswer {
			if n.Remaining < 0 && n.Empties() == 0 && !n.Guessed {
				continue // it says nothing
			}
			if e.Value = max(0, n.Remaining); n.Guessed {
				e.Source = SourceGuess
			}
		}
		l := &stack.Limits[n.Limit]
		e.Policy, e.Scope = readings.PolicyOf(l.Policy), p.set().Describe(l)
		if e.Long = p.reports.Memory.Keep(l.Key(), n, at); e.Long {
			p.log.Stated(warnings.Wait{Upstream: p.upstream, Policy: e.Policy, Scope: e.Scope, Source: e.Source, For: e.For}) //nolint:contextcheck // a line of the log is of no call
		}
		if p.telemetry != nil {
			telemetry.EmitCall(ctx, p.telemetry, e, func(h *Hooks) func(context.Context, FeedbackApplied) { return h.FeedbackApplied })
		}
	}
}

// requested emits a request to the store.
func (p *Pacer) requested(op string, calls int, took time.Duration, err error) {
	e := StoreRequest{Upstream: p.upstream, Op: op, Calls: calls, Took: took, Err: err}
	telemetry.Emit(p.telemetry, e, func(h *Hooks) func(StoreRequest) { return h.StoreRequest })
}

// failedOver emits and logs that the store is lost, or back.
func (p *Pacer) failedOver(c failover.Change) {
	p.log.Changed(c)
	if p.telemetry != nil {
		telemetry.Emit(p.telemetry, Failover{
			Upstream: p.upstream, On: c.Lost, Never: c.Never, Outage: p.outage, Processes: c.Processes, For: c.For, Err: c.Err, Dropped: c.Dropped,
		}, func(h *Hooks) func(Failover) { return h.Failover })
	}
}
