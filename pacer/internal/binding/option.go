package binding

import (
	"context"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// An Option sets one property of a call.
type Option struct {
	Kind     Kind
	Name     string // of a scope or a policy
	Value    string
	N        int64
	Estimate bool             // of CostOf: the cost is settled later
	Learned  policies.Learned // of an estimate: how it is improved
}

// A Kind is the property that an Option sets.
type Kind uint8

// The kinds of options.
const (
	Scope     Kind = iota + 1 // the value of a scope
	Cost                      // of the call
	MaxWait                   // how long it may wait
	NotBefore                 // how long it has to
	CostOf                    // its cost by one policy
	Tracked                   // the answer will be reported
	Keep                      // for how long a booking may be redeemed: of package bookings
)

// Scopes that no policy can have. They carry other properties of calls.
const (
	LaneScope   = specs.PartyScope
	WeightScope = "/weight"
	NestedScope = "/nested" // it shares the permits of outer calls
	CallerScope = "/caller" // the part of a program that makes the call, for the figures of what was spent
)

// A scopeContext carries a value for a scope.
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

// scopesOf returns the innermost scope of a context; nil without one.
func scopesOf(ctx context.Context) *scopeContext {
	if c, ok := ctx.(*scopeContext); ok {
		return c
	}
	c, _ := ctx.Value(scopeKey{}).(*scopeContext)
	return c
}

// WithScope returns a context whose calls carry a value for a scope. The innermost value counts.
func WithScope(ctx context.Context, name, value string) context.Context {
	return &scopeContext{ctx, name, value, scopesOf(ctx)}
}

// WithoutScopes returns a context whose calls carry only the scopes of their options.
func WithoutScopes(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, (*scopeContext)(nil))
}

// Scopes calls visit with each scope and value of a context, innermost first.
func Scopes(ctx context.Context, visit func(name, value string)) {
	for s := scopesOf(ctx); s != nil; s = s.outer {
		visit(s.name, s.value)
	}
}
