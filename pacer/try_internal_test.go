package pacer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/calls"
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
		require.True(t, p.goesAtOnce(t.Context(), &calls.Ask{Set: p.set(), Cost: 1}), now)
		now = now.Add(-500 * time.Millisecond)
		require.True(t, p.goesAtOnce(t.Context(), &calls.Ask{Set: p.set(), Cost: 1}), now)
		now = now.Add(500*time.Millisecond + 8*time.Hour)
	}
}
