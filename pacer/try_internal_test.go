package pacer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// The short way stays open when a new day has come, or the clock has stepped back into the last one.
func TestTheShortWayOfAnotherDay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	p, err := New(Config{
		Upstream: "test",
		Store:    memstore.New(memstore.WithClock(func() store.Instant { return store.Instant(now.UnixMicro()) })),
		Policies: []policies.Policy{policies.Daily(1000, time.UTC), policies.Hourly(1000, time.UTC)},
	})
	require.NoError(t, err)
	require.NoError(t, p.Wait(t.Context()), "keys are made on the long way")
	for range 100 {
		require.True(t, p.goesAtOnce(t.Context(), &binding.Ask{Set: p.set(), Cost: 1}), now)
		now = now.Add(-500 * time.Millisecond)
		require.True(t, p.goesAtOnce(t.Context(), &binding.Ask{Set: p.set(), Cost: 1}), now)
		now = now.Add(500*time.Millisecond + 8*time.Hour)
	}
}

// Calls of parties, lanes and tenants of a rate take the short way, too.
func TestTheShortWayOfParties(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]policies.Policy{
		"parties": policies.PerMinute(10).Burst(10).Reserve("desk", 30), "an exact rate": policies.AtMost(10, time.Minute).Burst(10).Reserve("desk", 30),
		"a lane": policies.PerMinute(10).Burst(10).Lane("desk", 50), "tenants": policies.PerMinute(10).Burst(10).Fair("tenant"),
	} {
		p, err := New(Config{Upstream: "test", Policies: []policies.Policy{policy}})
		require.NoError(t, err)
		defer p.Close()
		goes := func(opts ...Option) bool {
			a := binding.Ask{Options: optionsOf(nil, opts)}
			require.NoError(t, p.calls.CallInto(t.Context(), &a))
			return p.goesAtOnce(t.Context(), &a)
		}
		of := Option(Lane("desk"))
		if name == "tenants" {
			of = Scope("tenant", "x")
		}
		require.NoError(t, p.Wait(t.Context(), of), "keys are made on the long way")
		require.True(t, goes(of) && goes(of, Cost(2)), name)
		require.False(t, goes(of, Cost(9)), "%s: it must wait", name)
		require.Equal(t, name != "tenants", goes(), "the long way returns the error")
	}
}

// A call of a process without a share tries again while it may wait, and no longer.
func TestACallAsksNoLongerThanItMayWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ deadline, maxWait time.Duration }{
		"deadline": {10 * time.Millisecond, Forever}, "MaxWait": {time.Hour, 10 * time.Millisecond}, "not at all": {time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
				defer cancel()
				asked := 0
				p := &Pacer{calls: &binding.Reader{Dispatcher: &dispatch.Dispatcher{}}}
				waited, err := p.whileShared(ctx, &binding.Ask{MaxWait: c.maxWait}, func() error {
					if asked++; asked > 10 {
						return nil
					}
					time.Sleep(min(c.maxWait, 5*time.Millisecond))
					return store.ErrNoShare
				})
				require.ErrorIs(t, err, store.ErrNoShare)
				require.LessOrEqual(t, asked, 2)
				require.LessOrEqual(t, waited, 5*time.Millisecond, "the last answer is no wait for the store")
			})
		})
	}
}
