package binding

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A call made inside another one may need a permit that only the end of the outer call returns. So the context of a call in flight carries
// the call, and a call made under this context looks up what its outer calls hold. If they hold every permit, it is refused. A context does
// not leave its process, and neither does this check.

// A callContext is the context of a call that holds permits.
type callContext struct {
	context.Context //nolint:containedctx // it is a context

	of    *Reader // of its Pacer
	call  *dispatch.Call
	outer *callContext // the next callContext that the context descends from; nil if there is none
}

type callKey struct{}

// Value implements [context.Context].
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// outerCalls returns the innermost call in flight that a context carries; nil if there is none.
func outerCalls(ctx context.Context) *callContext {
	c, _ := ctx.Value(callKey{}).(*callContext)
	return c
}

// WithCall returns a context that carries a call; ctx itself if the call holds no permit, or ctx carries it already.
func (r *Reader) WithCall(ctx context.Context, call *dispatch.Call) context.Context {
	if call.Lease() == nil {
		return ctx
	}
	outer := outerCalls(ctx)
	for c := outer; c != nil; c = c.outer {
		if c.call == call {
			return ctx
		}
	}
	return &callContext{ctx, r, call, outer}
}

// A heldPermit is the number of permits of one limit that the outer calls hold.
type heldPermit struct {
	key   store.Key
	count int64 // of permits that count now: see policies.Policy.LongerThan
}

// heldBy returns the permits of the Pacer that outer calls hold.
func (r *Reader) heldBy(outer *callContext) []heldPermit {
	var all []heldPermit
	for c := outer; c != nil; c = c.outer {
		lease := c.call.Lease()
		if c.of != r || !r.Dispatcher.Leases.Holds(lease) {
			continue
		}
		age := time.Since(c.call.View().Due)
		for i := range lease.Limits {
			l := &lease.Limits[i]
			at := slices.IndexFunc(all, func(h heldPermit) bool { return h.key == l.Key() })
			if at < 0 {
				at, all = len(all), append(all, heldPermit{key: l.Key()})
			}
			if age >= time.Duration(l.Spec.After)*time.Microsecond {
				all[at].count++
			}
		}
	}
	return all
}

// share returns the limits that bind a call, except those whose permits it shares with outer calls.
func (a *Ask) share(limits []store.Limit) []store.Limit {
	if len(a.held) == 0 || a.Scope(NestedScope) == "" {
		return limits
	}
	return slices.DeleteFunc(slices.Clone(limits), func(l store.Limit) bool {
		return l.Spec.Algorithm == specs.Concurrency && slices.ContainsFunc(a.held, func(h heldPermit) bool { return h.key == l.Key() })
	})
}

// checkNested returns an error if the outer calls of a call hold all permits of one of its limits.
func (r *Reader) checkNested(a *Ask, limits []store.Limit) error {
	for _, h := range a.held {
		for i := range limits {
			l := &limits[i]
			if l.Key() == h.key && l.Spec.Algorithm == specs.Concurrency && h.count >= l.Spec.Limit {
				return r.Errors.Nested(l)
			}
		}
	}
	return nil
}
