package pacer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// ample is a policy that makes nobody wait.
func ample() policies.Policy { return policies.PerSecond(1_000_000).Burst(1_000_000_000) }

// allocs returns how often a call allocates once it has been made a few times. Tests that use it are not parallel, so that
// nothing else allocates meanwhile. The race detector allocates nothing of its own here.
func allocs(t *testing.T, call func()) float64 {
	t.Helper()
	for range 10 {
		call()
	}
	return testing.AllocsPerRun(1000, call)
}

// A Wait in memory that need not wait allocates nothing.
func TestAWaitInMemoryAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	ctx, cancel := context.WithTimeout(pacer.With(pacer.With(t.Context(), pacer.Scope("tenant", "acme")), pacer.Scope("user", "bob")), time.Hour)
	defer cancel()
	for name, stack := range map[string][]policies.Policy{
		"one rate":          {ample()},
		"three rates":       {ample().Named("a"), ample().Named("b"), ample().Per("tenant")},
		"two scopes":        {ample().Per("tenant"), ample().Per("user")},
		"an optional scope": {ample(), ample().Per("ticket").Optional()},
		"an adaptive rate":  {ample().Adaptive(policies.Adaptation{})},
		"a calendar":        {policies.Daily(1_000_000_000, time.UTC)},
		"a calendar each":   {policies.Monthly(1_000_000_000, time.UTC).Per("tenant")},
		"a fixed window":    {policies.Fixed(1_000_000_000, time.Hour)},
		"a sliding window":  {policies.Sliding(1_000_000_000, time.Hour)},
		"some of each":      {ample(), policies.Sliding(1_000_000_000, time.Hour).Per("tenant"), policies.Daily(1_000_000_000, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // it counts what is allocated
			p := newPacer(t, limits(stack...))
			for how, call := range map[string]func() error{
				"Wait":   func() error { return p.Wait(ctx) },
				"cost":   func() error { return p.Wait(ctx, pacer.Cost(2)) },
				"Allow":  func() error { return p.Wait(ctx, pacer.MaxWait(0)) },
				"option": func() error { return p.Wait(ctx, pacer.Scope("tenant", "other"), pacer.MaxWait(time.Second)) },
			} {
				n := allocs(t, func() {
					if err := call(); err != nil {
						t.Fatal(err)
					}
				})
				require.Zero(t, n, how)
			}
		})
	}
}

// A Reserve in memory allocates the reservation, and the limits if some of them have scopes.
func TestAReservationAllocatesLittle(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	ctx := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
	plain := newPacer(t, limits(ample().Named("a"), ample().Named("b")))
	scoped := newPacer(t, limits(ample().Named("a"), ample().Named("b"), ample().Per("tenant")))
	for most, p := range map[float64]*pacer.Pacer{1: plain, 2: scoped} {
		n := allocs(t, func() {
			r, err := p.Reserve(ctx, pacer.Tracked())
			if err == nil {
				err = r.Wait(ctx)
			}
			if err == nil {
				err = r.Report(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		require.LessOrEqual(t, n, most)
	}
}

// A scope costs its context, and nothing else.
func TestAScopeAllocatesOnce(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	ctx := pacer.With(t.Context(), pacer.Scope("user", "bob"))
	p := newPacer(t, limits(ample().Per("tenant")))
	require.LessOrEqual(t, allocs(t, func() {
		if err := p.Wait(pacer.With(ctx, pacer.Scope("tenant", "acme")), pacer.MaxWait(0)); err != nil {
			t.Fatal(err)
		}
	}), 1.0)
}
