package pacer

import (
	"context"
	"errors"

	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/observe"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// beforeEnforcing gives back the charges for future slots of policies that are about to be enforced, so that no call waits behind calls
// that have gone. Enforcing gives back charges made meanwhile.
func (p *Pacer) beforeEnforcing(list []policies.Policy) {
	if p.set().WillEnforce(list) && !p.isClosed() {
		p.observer.GiveBackAll()
	}
}

// Predicted implements [observe.Events].
func (e events) Predicted(ctx context.Context, one *observe.Observation, g *store.Grant) {
	if e.telemetry != nil {
		e.observed(ctx, e.outcome(one, g))
	}
}

// WouldRefuse implements [observe.Events].
func (e events) WouldRefuse(ctx context.Context, err error) { e.observed(ctx, e.refusal(err)) }

// WouldQueue implements [observe.Events].
func (e events) WouldQueue(ctx context.Context, policy, scope string, running int64) {
	e.observed(ctx, hooks.Observed{Policy: policy, Scope: scope, Cost: 1, InFlight: true, Running: running})
}

// NotObserved implements [observe.Events].
func (e events) NotObserved(n int64) {
	telemetry.Emit(e.telemetry, n, func(h *hooks.Set) func(int64) { return h.NotObserved })
}

// observed emits what a policy would have done to a call.
func (p *Pacer) observed(ctx context.Context, one hooks.Observed) {
	one.Upstream = p.upstream
	telemetry.EmitCall(ctx, p.telemetry, one, func(h *hooks.Set) func(context.Context, hooks.Observed) { return h.Observed })
}

// refusal returns the event of a call that would have been refused with an error.
func (p *Pacer) refusal(err error) hooks.Observed {
	one := hooks.Observed{Refused: err}
	if e, ok := errors.AsType[*LimitError](err); ok {
		one.Policy, one.Cost, one.Wait, one.Paused = e.Policy, e.Cost, e.Wait, e.Reason == Paused
		if e.Reason != NoScope {
			one.Scope = e.Scope
		}
	}
	return one
}

// outcome returns what the store's answer means for a call.
func (p *Pacer) outcome(one *observe.Observation, g *store.Grant) hooks.Observed {
	if !g.OK {
		r := &dispatch.NotYetError{
			Wait:  dispatch.Wait{Cost: one.Call.Cost, Paused: g.Paused > 0, For: g.Wait()},
			Until: g.Paused, MaxWait: one.Call.MaxWait, ByDeadline: one.Ends,
		}
		if g.Binds >= 0 {
			r.Limit, r.Cost = &one.Limits[g.Binds], one.Call.CostOf(g.Binds)
		}
		return p.refusal(p.notYet(r))
	}
	e := hooks.Observed{Cost: one.Call.Cost, Wait: max(0, g.Wait()-one.Delay)}
	if e.Wait > 0 {
		e.Paused = g.Paused > 0
		if g.Binds >= 0 {
			e.Policy, e.Scope, e.Cost = one.Limits[g.Binds].Policy, p.set().Describe(&one.Limits[g.Binds]), one.Call.CostOf(g.Binds)
		}
	}
	return e
}
