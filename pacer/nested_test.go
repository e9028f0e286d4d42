package pacer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/policies"
)

// does makes a call by Do, which needs a permit, and does something inside it.
func does(ctx context.Context, p *pacer.Pacer, inside func(context.Context) error, opts ...pacer.Option) error {
	return p.Do(ctx, func(ctx context.Context) (policies.Reading, error) { return policies.Reading{}, inside(ctx) }, opts...)
}

// nothing is what a call does that does nothing.
func nothing(context.Context) error { return nil }

// permitsLeft returns how many permits of the first policy are free for a call.
func permitsLeft(ctx context.Context, t *testing.T, p *pacer.Pacer, opts ...pacer.ScopeOption) int64 {
	t.Helper()
	s, err := p.Status(ctx, opts...)
	require.NoError(t, err)
	return s.Policies[0].Remaining
}

// A call that could only get the permit of the call that it is made in fails at once, whichever way it is made.
func TestANestedCallThatWouldWaitForItselfIsRefused(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *pacer.Pacer) error{
		"Do":              func(ctx context.Context, p *pacer.Pacer) error { return does(ctx, p, nothing) },
		"Acquire":         func(ctx context.Context, p *pacer.Pacer) error { _, err := p.Acquire(ctx); return err },
		"Reserve":         func(ctx context.Context, p *pacer.Pacer) error { _, err := p.Reserve(ctx); return err },
		"TryAcquire":      func(ctx context.Context, p *pacer.Pacer) error { _, err := p.TryAcquire(ctx); return err },
		"context goes on": func(ctx context.Context, p *pacer.Pacer) error { return does(context.WithoutCancel(ctx), p, nothing) },
		"without any bound": func(ctx context.Context, p *pacer.Pacer) error {
			return does(ctx, p, nothing, pacer.MaxWait(pacer.Forever))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var refusals []hooks.Refusal
				p := newPacer(t, pacer.Config{
					Policies: []policies.Policy{policies.InFlight(1).Named("one"), policies.PerMinute(2).Burst(2)},
					Hooks:    []*hooks.Set{{Refused: func(_ context.Context, r hooks.Refusal) { refusals = append(refusals, r) }}},
				})
				start := time.Now()
				require.NoError(t, does(t.Context(), p, func(ctx context.Context) error {
					err := call(ctx, p)
					var nested *pacer.LimitError
					require.ErrorAs(t, err, &nested)
					require.Equal(t, pacer.LimitError{Upstream: "test", Reason: pacer.WaitsForItself, Policy: "one", Limit: 1}, *nested)
					require.ErrorIs(t, err, pacer.ErrRefused)
					require.NotErrorIs(t, err, pacer.ErrNotYet)
					require.NotErrorIs(t, err, pacer.TooCostly)
					return nil
				}))
				require.NoError(t, does(t.Context(), p, nothing), "the refused call was charged nothing, and the permit is back")
				require.Zero(t, time.Since(start))
				require.NoError(t, p.Close())
				require.Len(t, refusals, 1)
				require.Equal(t, "one", refusals[0].Policy)
			})
		})
	}
}

func TestTheErrorOfANestedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.InFlight(2).Per("tenant").Named("two")))
		ctx := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
		require.NoError(t, does(ctx, p, func(ctx context.Context) error {
			return does(ctx, p, func(ctx context.Context) error {
				require.EqualError(t, does(ctx, p, nothing), `pacer: upstream "test": policy "two" for tenant=acme: the call was made inside calls that hold `+
					`all of its 2 permits, so it would wait for itself: make it when they are over, let it share a permit with pacer.Nested(), or raise the limit`)
				require.Zero(t, permitsLeft(ctx, t, p, pacer.Scope("tenant", "acme")))
				return nil
			})
		}), "the second call gets the second permit")
		require.Equal(t, int64(2), permitsLeft(ctx, t, p, pacer.Scope("tenant", "acme")))
		require.NoError(t, p.Close())
	})
}

// A nested call that shares its outer call's permit takes none, and is charged to every other limit.
func TestANestedCallSharesThePermit(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *pacer.Pacer) error{
		"Do": func(ctx context.Context, p *pacer.Pacer) error { return does(ctx, p, nothing, pacer.Nested()) },
		"by context": func(ctx context.Context, p *pacer.Pacer) error {
			return does(pacer.With(ctx, pacer.Nested()), p, nothing)
		},
		"deeper": func(ctx context.Context, p *pacer.Pacer) error {
			return does(pacer.With(ctx, pacer.Nested()), p, func(ctx context.Context) error { return p.Wait(ctx, pacer.Cost(1), pacer.MaxWait(0)) })
		},
		"Wait":         func(ctx context.Context, p *pacer.Pacer) error { return p.Wait(ctx, pacer.Nested()) },
		"Allow":        func(ctx context.Context, p *pacer.Pacer) error { return p.Wait(ctx, pacer.Nested(), pacer.MaxWait(0)) },
		"not released": func(ctx context.Context, p *pacer.Pacer) error { _, err := p.Acquire(ctx, pacer.Nested()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, limits(policies.InFlight(1), policies.PerMinute(1).Burst(10).Named("rate")))
				require.NoError(t, does(t.Context(), p, func(ctx context.Context) error {
					require.NoError(t, call(ctx, p))
					require.Zero(t, permitsLeft(ctx, t, p), "the outer call has its permit still")
					return nil
				}))
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				require.Equal(t, int64(1), s.Policies[0].Remaining, "the permit is back once")
				spent := int64(2)
				if name == "deeper" {
					spent = 3
				}
				require.Equal(t, 10-spent, s.Policies[1].Remaining, "the rate was charged for each call")
				require.NoError(t, p.Close())
			})
		})
	}
}

// Only what the outer calls hold is shared: without them, and of other keys, a nested call takes a permit.
func TestANestedCallTakesPermitsThatItsOuterCallsDoNotHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.InFlight(2), policies.InFlight(1).Per("tenant").Named("tenant")))
		acme, zen := pacer.Scope("tenant", "acme"), pacer.Scope("tenant", "zen")
		require.NoError(t, does(t.Context(), p, func(ctx context.Context) error {
			require.Equal(t, int64(1), permitsLeft(ctx, t, p, acme), "without an outer call it takes a permit")
			return does(ctx, p, func(ctx context.Context) error {
				require.Equal(t, int64(1), permitsLeft(ctx, t, p, zen), "it shares the permit of all tenants")
				var nested *pacer.LimitError
				require.ErrorAs(t, does(ctx, p, nothing, zen), &nested, "it has the permit of this tenant")
				require.Equal(t, `tenant=zen`, nested.Scope)
				return nil
			}, pacer.Nested(), zen)
		}, pacer.Nested(), acme))
		require.Equal(t, int64(2), permitsLeft(t.Context(), t, p, acme))
		require.NoError(t, p.Close())
	})
}

// A possible deadlock that is not certain is no error.
func TestNestedCallsThatMayWait(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		policy  policies.Policy
		inside  func(t *testing.T, p *pacer.Pacer, outer *pacer.Reservation, before, ctx context.Context) error
		refused bool
	}{
		"another scope": {policies.InFlight(1).Per("tenant"), func(_ *testing.T, p *pacer.Pacer, _ *pacer.Reservation, _, ctx context.Context) error {
			return does(ctx, p, nothing, pacer.Scope("tenant", "zen"))
		}, false},
		"the same scope": {policies.InFlight(1).Per("tenant"), func(_ *testing.T, p *pacer.Pacer, _ *pacer.Reservation, _, ctx context.Context) error {
			return does(ctx, p, nothing)
		}, true},
		"another pacer": {policies.InFlight(1), func(t *testing.T, _ *pacer.Pacer, _ *pacer.Reservation, _, ctx context.Context) error {
			t.Helper()
			other := newPacer(t, limits(policies.InFlight(1)))
			defer func() { _ = other.Close() }()
			return does(ctx, other, nothing)
		}, false},
		"the outer call is over": {policies.InFlight(1), func(_ *testing.T, p *pacer.Pacer, outer *pacer.Reservation, _, ctx context.Context) error {
			outer.Release()
			return does(ctx, p, nothing)
		}, false},
		"its permit is idle for a while": {policies.InFlight(1).Skew(time.Second), func(_ *testing.T, p *pacer.Pacer, outer *pacer.Reservation, _, ctx context.Context) error {
			outer.Release()
			return does(ctx, p, nothing)
		}, false},
		"its lease has run out": {policies.InFlight(1).Lease(3 * time.Second), func(_ *testing.T, p *pacer.Pacer, outer *pacer.Reservation, _, ctx context.Context) error {
			outer.WhileAlive(func() bool { return false })
			time.Sleep(10 * time.Second)
			return does(ctx, p, nothing)
		}, false},
		"no permit is needed": {policies.InFlight(1).Named("one"), func(_ *testing.T, p *pacer.Pacer, _ *pacer.Reservation, _, ctx context.Context) error {
			return does(ctx, p, nothing, pacer.CostOf("one", 0))
		}, false},
		"the outer call is short": {policies.InFlight(1).LongerThan(time.Minute), func(_ *testing.T, p *pacer.Pacer, _ *pacer.Reservation, _, ctx context.Context) error {
			time.Sleep(59 * time.Second)
			return does(ctx, p, nothing)
		}, false},
		"the outer call is long": {policies.InFlight(1).LongerThan(time.Minute), func(_ *testing.T, p *pacer.Pacer, _ *pacer.Reservation, _, ctx context.Context) error {
			time.Sleep(time.Minute)
			return does(ctx, p, nothing)
		}, true},
		"the same call twice": {policies.InFlight(2), func(_ *testing.T, p *pacer.Pacer, outer *pacer.Reservation, _, ctx context.Context) error {
			return does(outer.Context(ctx), p, nothing)
		}, false},
		"under the context of before": {policies.InFlight(1), func(_ *testing.T, p *pacer.Pacer, outer *pacer.Reservation, before, _ context.Context) error {
			time.AfterFunc(5*time.Second, outer.Release)
			return does(before, p, nothing)
		}, false},
		"others hold the rest": {policies.InFlight(2), func(t *testing.T, p *pacer.Pacer, _ *pacer.Reservation, before, ctx context.Context) error {
			t.Helper()
			other, err := p.Acquire(before)
			require.NoError(t, err)
			time.AfterFunc(5*time.Second, other.Release)
			start := time.Now()
			err = does(ctx, p, nothing)
			require.Equal(t, 5*time.Second, time.Since(start))
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, limits(one.policy))
				ctx := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
				outer, err := p.Acquire(ctx)
				require.NoError(t, err)
				err = one.inside(t, p, outer, ctx, outer.Context(ctx))
				if one.refused {
					var nested *pacer.LimitError
					require.ErrorAs(t, err, &nested)
				} else {
					require.NoError(t, err)
				}
				outer.Release()
				require.NoError(t, p.Close())
			})
		})
	}
}

// A nested call that waits for its rate while the policies change shares the permit afterwards, too.
func TestANestedCallSharesThePermitWhenThePoliciesChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := policies.InFlight(1).Named("one")
		p := newPacer(t, limits(one, policies.Every(time.Minute).Named("rate")))
		start := time.Now()
		require.NoError(t, does(t.Context(), p, func(ctx context.Context) error {
			time.AfterFunc(time.Second, func() { _ = p.Declare(one, policies.Every(10*time.Second).Named("rate")) })
			return does(ctx, p, nothing, pacer.Nested())
		}))
		require.Less(t, time.Since(start), time.Minute, "it was bound anew")
		require.NoError(t, p.Close())
	})
}

// Calls that hold no permits get the context as it is.
func TestTheContextOfACallWithoutPermits(t *testing.T) {
	t.Parallel()
	p := newPacer(t, limits(policies.PerSecond(10), policies.InFlight(1).Per("tenant").Optional()))
	defer func() { _ = p.Close() }()
	r, err := p.Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, t.Context(), r.Context(t.Context()))
	held, err := p.Acquire(t.Context(), pacer.Scope("tenant", "acme"))
	require.NoError(t, err)
	ctx := held.Context(pacer.With(t.Context(), pacer.Scope("tenant", "zen")))
	require.Equal(t, ctx, held.Context(ctx), "it carries a call once")
	require.NoError(t, does(ctx, p, nothing), "scopes are those of the context")
	held.Release()
}
