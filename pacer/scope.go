package pacer

import (
	"context"
	"strconv"
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
