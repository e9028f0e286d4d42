package pacer

import (
	"context"

	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/observe"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Mode says whether a Pacer enforces its policies.
type Mode uint8

const (
	// Enforce delays and refuses calls as the policies require. Policies that are policies.Policy.Observed are not enforced.
	Enforce Mode = iota
	// Observe lets every call go at once, whatever limits, missing scopes or pauses there are. Only [NotBefore], which the caller asks
	// for, still delays a call. Every policy is treated as policies.Policy.Observed: calls are charged as if they had waited, in the
	// background if the store is not in memory, and [hooks.Set].Observed receives how long each of them would have waited, and for what. A
	// Pacer whose policies are all observed behaves in the same way.
	//
	// Predictions cover rates and windows, in the order in which calls arrive. They do not cover lanes and fair shares, which let some
	// calls overtake others. For calls in flight, each process counts its own: a call that would have been queued is reported, but not
	// for how long. See docs/observe.md.
	Observe
)

// String returns the mode's name.
func (m Mode) String() string {
	switch m {
	case Enforce:
		return "enforce"
	case Observe:
		return "observe"
	}
	return "unknown"
}

// Mode returns the mode, which says whether the policies are enforced.
func (p *Pacer) Mode() Mode {
	if p.set().AllObserved {
		return Observe
	}
	return Enforce
}

// SetMode sets whether this process enforces its policies, in place of [Config].Mode. It takes effect at once. What was charged while the
// policies were observed still counts, except slots in the future: their calls have already gone, so SetMode gives these slots back, and
// waits for that for at most five seconds. When the mode becomes [Observe], waiting calls go at once, except those behind a pause of the
// whole upstream, which still wait for its end.
//
// It returns a [*ConfigError] for a mode that does not exist, and [ErrClosed].
func (p *Pacer) SetMode(m Mode) error {
	if m > Observe {
		return badNumber("Mode", int64(m), "must be Enforce or Observe")
	}
	p.beforeEnforcing(p.set().Given, m)
	if !p.policies.SetObserved(m == Observe) {
		return ErrClosed
	}
	return nil
}

// beforeEnforcing gives back what is charged for slots to come of policies that are about to be enforced, so that no call has to wait
// behind calls that have gone. What is charged meanwhile is given back when they are enforced.
func (p *Pacer) beforeEnforcing(list []policies.Policy, m Mode) {
	if p.set().WillEnforce(list, m == Observe) && !p.isClosed() {
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

// observed emits what would have become of a call.
func (p *Pacer) observed(ctx context.Context, one hooks.Observed) {
	one.Upstream = p.upstream
	telemetry.EmitCall(ctx, p.telemetry, one, func(h *hooks.Set) func(context.Context, hooks.Observed) { return h.Observed })
}

// refusal returns the event of a call that would have been refused with an error.
func (p *Pacer) refusal(err error) hooks.Observed {
	one := hooks.Observed{Refused: err}
	switch e := err.(type) { //nolint:errorlint // they are as they were made
	case *ScopeError:
		one.Policy = e.Policy
	case *LimitError:
		one.Policy, one.Scope, one.Cost, one.Wait, one.Paused = e.Policy, e.Scope, e.Cost, e.Wait, e.Paused
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
