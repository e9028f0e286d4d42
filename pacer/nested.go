package pacer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A call that is made inside another one, and needs a permit of the same policy, may wait for a permit that only the end of the outer call
// returns. So the context of a call in flight carries the call, and a call that is made under this context finds out what its outer calls
// hold. If that is every permit that there is, it is refused. A context does not leave its process, and neither does this check.

// A callContext is the context of a call that holds permits.
type callContext struct {
	context.Context //nolint:containedctx // it is a context

	call  *Reservation
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

// outerOf returns the innermost call in flight that a context carries, if some policies of a set count calls in flight; nil otherwise.
func outerOf(ctx context.Context, set *binding.Set) *callContext {
	if !set.HasPermits {
		return nil
	}
	return outerCalls(ctx)
}

// outerCalls returns the innermost call in flight that a context carries; nil if there is none.
func outerCalls(ctx context.Context) *callContext {
	c, _ := ctx.Value(callKey{}).(*callContext)
	return c
}

// Context returns a context for the work of this call. It carries the call until [Reservation.Release]. A call made under it is nested:
// it is refused with a [*NestedError] if it could never get a permit, and with [Nested] it takes none. Call Context when the call may go,
// that is, after Wait has returned nil, or after [Pacer.Acquire] or [Pacer.TryAcquire]. [Pacer.Do] and package transport do this for you.
//
// Work that continues in the background after the call is not nested: give it the original context. If the call holds no permit, Context
// returns ctx itself.
func (r *Reservation) Context(ctx context.Context) context.Context {
	if r.call.Lease() == nil {
		return ctx
	}
	outer := outerCalls(ctx)
	for c := outer; c != nil; c = c.outer {
		if c.call == r {
			return ctx
		}
	}
	return &callContext{ctx, r, outer}
}

// nestedScope is the scope by which a call carries that it is to share permits. No policy can have it.
const nestedScope = "/nested"

// Nested makes a call inside another one share the outer call's permits: it takes no permit of a policy for which the outer call holds
// one with the same scopes. All other limits bind it as usual: rates and quotas are charged. An upstream that counts both calls therefore
// sees one more in flight than the policy allows. End the nested call before the outer one: nothing counts it afterwards.
//
// The outer call is one that the context carries: see [Reservation.Context]. Without an outer call, Nested makes no difference.
func Nested() Option { return Option{kind: optScope, name: nestedScope, value: "yes"} }

// WithNested returns a context whose calls share the permits of the outer call: [Nested] does the same for one call. Use it where you
// cannot set a call's options, such as for an SDK over package transport.
func WithNested(ctx context.Context) context.Context { return WithScope(ctx, nestedScope, "yes") }

// A heldPermit is what the outer calls of a call hold of one limit.
type heldPermit struct {
	key   store.Key
	count int64 // of permits that count now: see policies.Policy.LongerThan
}

// heldBy returns what outer calls hold of this Pacer's permits.
func (p *Pacer) heldBy(outer *callContext) []heldPermit {
	var all []heldPermit
	for c := outer; c != nil; c = c.outer {
		lease := c.call.call.Lease()
		if c.call.pacer != p || !p.leases.Holds(lease) {
			continue
		}
		age := time.Since(c.call.At())
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

// share returns the limits that bind a call, without those of which it shares the permits of outer calls.
func (a *ask) share(limits []store.Limit) []store.Limit {
	if len(a.held) == 0 || a.scope(nestedScope) == "" {
		return limits
	}
	return slices.DeleteFunc(slices.Clone(limits), func(l store.Limit) bool {
		return l.Spec.Algorithm == policies.Concurrency && slices.ContainsFunc(a.held, func(h heldPermit) bool { return h.key == l.Key() })
	})
}

// checkNested returns a [*NestedError] if the outer calls of a call hold all permits of one of its limits.
func (p *Pacer) checkNested(a *ask, limits []store.Limit) error {
	for _, h := range a.held {
		for i := range limits {
			l := &limits[i]
			if l.Key() == h.key && l.Spec.Algorithm == policies.Concurrency && h.count >= l.Spec.Limit {
				return &NestedError{Upstream: p.upstream, Policy: l.Policy, Scope: p.set().Describe(l), Limit: l.Spec.Limit}
			}
		}
	}
	return nil
}

// A NestedError reports that a call was made inside other calls that hold every permit of a policy that the call needs. It would wait for
// a permit that is returned only when these outer calls are over. It matches [ErrRefused], and neither [ErrNotYet] nor [ErrNever].
// Nothing was charged.
//
// This is a mistake in the program, and does not depend on other calls. If the outer calls hold some of the permits and other calls hold
// the rest, the call waits, for at most MaxWait.
type NestedError struct {
	Upstream string
	Policy   string
	Scope    string // its scopes and values, such as `tenant=acme`; "" for the whole upstream
	Limit    int64  // how many permits the policy has, all of which outer calls hold

	_ struct{}
}

// Error implements error.
func (e *NestedError) Error() string {
	scope, permits := "", "its only permit"
	if e.Scope != "" {
		scope = " for " + e.Scope
	}
	if e.Limit > 1 {
		permits = fmt.Sprintf("all of its %d permits", e.Limit)
	}
	return fmt.Sprintf("pacer: upstream %q: policy %q%s: the call was made inside calls that hold %s, so it would wait for itself: "+
		"make it when they are over, let it share a permit with pacer.Nested() or pacer.WithNested(ctx), or raise the limit",
		e.Upstream, e.Policy, scope, permits)
}

// Is matches [ErrRefused].
func (e *NestedError) Is(target error) bool { return target == ErrRefused }
