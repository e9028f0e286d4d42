package pacer

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A scopeContext is a context that carries a value for a scope.
type scopeContext struct {
	context.Context //nolint:containedctx // it is a context

	name, value string
	outer       *scopeContext // the next scopeContext that the context descends from; nil if there is none
}

type scopeKey struct{}

// Value implements [context.Context].
func (c *scopeContext) Value(key any) any {
	if key == (scopeKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// scopesOf returns the innermost scope that a context carries; nil if there is none.
func scopesOf(ctx context.Context) *scopeContext {
	if c, ok := ctx.(*scopeContext); ok {
		return c
	}
	c, _ := ctx.Value(scopeKey{}).(*scopeContext)
	return c
}

// WithScope returns a context whose calls carry a value for a scope: the tenant, the user, the endpoint. It holds for
// every policy that is Per that scope. The innermost value of a name counts, and [Scope] overrides it. An empty value
// means that the call does not carry the scope.
func WithScope(ctx context.Context, name, value string) context.Context {
	return &scopeContext{ctx, name, value, scopesOf(ctx)}
}

// laneScope is the scope by which a call carries its lane. No policy can have it.
const laneScope = "/lane"

// WithLane returns a context whose calls are in a lane: they have the part of each policy that policies.Policy.Lane
// gives to it. A policy that does not name the lane is not divided for it. If other lanes exist, a lane that no
// policy of a Pacer names is refused with a [*ConfigError]. The innermost lane counts, and [Lane] overrides it. Calls
// without a lane may use everything.
func WithLane(ctx context.Context, name string) context.Context {
	return WithScope(ctx, laneScope, name)
}

// weightScope is the scope by which a call carries its weight. No policy can have it.
const weightScope = "/weight"

// WithWeight returns a context whose calls have a weight, as [Weight] gives one call. The innermost weight counts.
func WithWeight(ctx context.Context, n int64) context.Context {
	return WithScope(ctx, weightScope, strconv.FormatInt(n, 10))
}

// bind returns the limits that bind a call, in room if there is enough.
func (p *Pacer) bind(a *ask, room []store.Limit) ([]store.Limit, error) {
	if a.set.fixed != nil {
		return a.set.fixed, nil
	}
	limits := room
	if cap(room) < len(a.set.limits) {
		limits = make([]store.Limit, 0, len(a.set.limits))
	}
	for i := range a.set.limits {
		l := &a.set.limits[i]
		if l.lane != "" && l.lane != a.lane || a.part == enforcedPart && l.observed || a.part == observedPart && !l.isPredicted() {
			continue
		}
		scope, missing := l.scope(a)
		if missing == "" {
			bound := l.Limit
			bound.Scope, bound.Spec = scope, a.set.specOf(l, a, scope)
			limits = append(limits, bound)
		} else if !l.optional {
			return nil, &ScopeError{Upstream: p.upstream, Policy: l.Policy, Scope: missing}
		}
	}
	return limits, nil
}

// request returns the limits that bind a call, in room if there is enough, and what it costs them. What its settlement has to know goes to
// s; nil if there will be none.
func (p *Pacer) request(a *ask, room []store.Limit, s *settling) (r waiters.Request, err error) {
	if a.pooled != nil {
		r, err = p.requestAny(a)
	} else if r.Limits, err = p.bind(a, room); err == nil {
		r.Limits, r.Call.Costs, err = p.costs(a, r.Limits, s)
	}
	if err != nil {
		return r, err
	}
	r.Call.Cost, r.Call.Tracked = a.cost, a.tracked && p.reconciles
	if a.set.hasQueues {
		err = p.queueUp(a, &r)
	}
	return r, err
}

// bindable returns the limits whose scopes a call carries, whether they are optional or not. Limits of a lane are
// included only for calls of that lane; those of all lanes, if lanes is set and the call is in none.
func (p *Pacer) bindable(a *ask, lanes bool) []store.Limit {
	limits := make([]store.Limit, 0, len(a.set.limits))
	for i := range a.set.limits {
		l := &a.set.limits[i]
		if lane := l.lane; lane != "" && lane != a.lane && (!lanes || a.lane != "") {
			continue
		}
		if scope, missing := l.scope(a); missing == "" {
			bound := l.Limit
			bound.Scope, bound.Spec = scope, a.set.specOf(l, a, scope)
			limits = append(limits, bound)
		}
	}
	return limits
}

// scope returns the value of the limit's scopes for a call, or the name of the first that the call lacks.
func (l *limit) scope(a *ask) (value, missing string) { return scopeOf(l.scopes, a) }

// scopeOf returns the value of some scopes for a call, or the name of the first that the call lacks.
func scopeOf(scopes []string, a *ask) (value, missing string) {
	switch len(scopes) {
	case 0:
		return "", ""
	case 1:
		v := a.scope(scopes[0])
		if v == "" {
			return "", scopes[0]
		}
		return store.EscapeScope(v), ""
	}
	var few [4]string
	values := few[:0]
	for _, name := range scopes {
		v := a.scope(name)
		if v == "" {
			return "", name
		}
		values = append(values, v)
	}
	return store.EscapeScope(values...), ""
}

// costs returns what a call costs each of its limits; nil if it is the same for all. A limit that the call costs
// nothing does not bind it. A cost that a limit never admits is refused. What the settlement has to know goes to s; nil if there will be none.
func (p *Pacer) costs(a *ask, limits []store.Limit, s *settling) ([]store.Limit, []int64, error) {
	var costs []int64
	if a.byPolicy {
		if err := p.checkCosts(a); err != nil {
			return nil, nil, err
		}
		bound := make([]store.Limit, 0, len(limits))
		costs = make([]int64, 0, len(limits))
		for i := range limits {
			l := a.set.byName[limits[i].Policy]
			policy := cmp.Or(l.whole, l.Policy)
			n := p.estimate(a, policy, limits[i].Scope)
			if n == 0 {
				s.isFree(&limits[i])
				continue
			}
			if l.whole == "" {
				s.learns(a, &limits[i])
			}
			if o := a.costOption(policy); n > limits[i].Spec.Limit && o != nil && o.estimate {
				n = limits[i].Spec.Limit
			}
			bound, costs = append(bound, limits[i]), append(costs, n)
		}
		limits = bound
	}
	for i := range limits {
		n := a.cost
		if costs != nil {
			n = costs[i]
		}
		l := &limits[i]
		if l.Spec.Algorithm == policies.Concurrency {
			continue // a call has one permit, whatever it costs
		}
		if n > l.Spec.Limit {
			return nil, nil, &LimitError{
				Upstream: p.upstream, Policy: l.Policy, Scope: p.describe(l), Cost: n, Limit: l.Spec.Limit, Never: true, MaxWait: a.maxWait,
			}
		}
	}
	return limits, costs, nil
}

// checkCosts returns an error if a CostOf names a policy that does not exist, or one whose cost cannot be set.
func (p *Pacer) checkCosts(a *ask) error {
	for i := range a.opts {
		o := &a.opts[i]
		if o.kind != optCostOf {
			continue
		}
		l := a.set.byName[o.name]
		switch {
		case l == nil:
			return &ConfigError{
				Field: "CostOf", Value: strconv.Quote(o.name), Reason: fmt.Sprintf("no policy of upstream %q has that name", p.upstream),
			}
		case l.whole != "":
			return &ConfigError{
				Field: "CostOf", Value: strconv.Quote(o.name), Reason: fmt.Sprintf("is a part of policy %q: a call costs both the same", l.whole),
			}
		case l.Spec.Algorithm == policies.Concurrency && o.n > 1:
			return badNumber("CostOf("+o.name+")", o.n, "a call has one permit; 0 means that the policy does not bind it")
		}
	}
	return nil
}

// maxShown is how many bytes of a scope value an error shows.
const maxShown = 64

// describe returns the scopes of a limit and their values, for people.
func (p *Pacer) describe(l *store.Limit) string {
	if of := p.set().byName[l.Policy]; of != nil {
		return describeScope(of.scopes, l.Scope)
	}
	return l.Scope // of a policy that only another process has
}

// describeScope returns scopes and their values, which are escaped, for people.
func describeScope(scopes []string, scope string) string {
	values := strings.Split(scope, ":") // what EscapeScope joined, unless it was hashed
	var b strings.Builder
	for i, name := range scopes {
		if i > 0 {
			b.WriteByte(' ')
		}
		v := scope
		if len(values) == len(scopes) {
			v = values[i]
		}
		if len(v) > maxShown {
			v = v[:maxShown] + "…"
		}
		b.WriteString(name + "=" + v)
	}
	return b.String()
}

// queueUp gives a call what it needs to be queued in the store, if one of its limits has a queue there.
func (p *Pacer) queueUp(a *ask, r *waiters.Request) error {
	fair := ""
	for i := range r.Limits {
		l := &r.Limits[i]
		r.HasQueue = r.HasQueue || l.Spec.HasQueue()
		if l.Spec.Algorithm == policies.Concurrency && !a.permits {
			return notEnough(l.Policy)
		}
		if l.Spec.Queue == policies.FairQueue {
			fair = l.Policy
		}
	}
	if !r.HasQueue {
		return nil
	}
	r.Call.Weight = a.weight
	if fair != "" {
		who := a.scope(a.set.fairBy)
		if who == "" {
			return &ScopeError{Upstream: p.upstream, Policy: fair, Scope: a.set.fairBy}
		}
		r.Call.Flow = flowOf(who)
	}
	return nil
}

// notEnough makes the error of a call that a policy counts while it is in flight, and that nobody could release.
func notEnough(policy string) error {
	return &ConfigError{
		Field: "Wait", Value: "not enough",
		Reason: fmt.Sprintf("policy %q counts calls in flight, so it must be known when this one is over: use Acquire, or TryAcquire, and Release what it returns", policy),
	}
}

// flowOf returns the number that identifies a scope value's fair share: the same in every process, from 1 to 2^53.
// Values that collide share a part.
func flowOf(value string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value))
	return int64(h.Sum64()>>12) + 1
}
