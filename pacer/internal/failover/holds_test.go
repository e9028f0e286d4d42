package failover_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// lost returns the scene of one of two processes that has made no call when it loses the store, which held so much.
func lost(t *testing.T, p policies.Policy, holds func(now store.Instant) store.Holding) *scene {
	t.Helper()
	s := newSceneOf(failover.Local, p.Named("p"))
	mem := memstore.New()
	s.shared.set(func() { s.shared.mem, s.shared.holds = mem, []store.Holding{holds(mem.Now())} })
	_, err := s.Status(t.Context(), s.stack) // it joins the fleet
	require.NoError(t, err)
	require.Equal(t, s.stack.Limits, s.shared.heartbeats[0].Limits)
	s.shared.set(func() { s.shared.down = true })
	return s
}

// ask asks for one call that goes now, or leaves it.
func (s *scene) ask(t *testing.T, c store.Call) store.Grant {
	t.Helper()
	var g [1]store.Grant
	c.Cost = 1
	require.NoError(t, s.Reserve(t.Context(), s.stack, []store.Call{c}, g[:]))
	require.Equal(t, g[0].OK, g[0].Local)
	return g[0]
}

// A process that loses the store knows what others spent, though it made no call itself: its share is one of what is left.
func TestAProcessKnowsWhatOthersSpent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		day := 1000 * time.Hour
		p := policies.Fixed(100, day)
		s := lost(t, p, func(now store.Instant) store.Holding {
			return store.Holding{Buckets: []store.Charge{{From: int64(now) - int64(now)%day.Microseconds(), To: 91}}}
		})
		went := 0
		for {
			var g [1]store.Grant
			require.NoError(t, s.Reserve(t.Context(), s.stack, []store.Call{{Cost: 1}}, g[:]))
			if !g[0].OK {
				break
			}
			went++
		}
		require.Equal(t, 4, went, "of nine that are left, for two")
		s.Close()
	})
}

// A process that loses the store begins behind what others were granted of a rate, and what they have been granted since it learned of it.
func TestAProcessKnowsTheLineOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := lost(t, policies.PerSecond(10), func(store.Instant) store.Holding { return store.Holding{Taken: 5 * time.Second} })
		g := s.ask(t, store.Call{MaxWait: store.Forever})
		require.Greater(t, g.Wait(), 5*time.Second)
		require.LessOrEqual(t, g.Wait(), 5*time.Second+400*time.Millisecond)
		s.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		s := lost(t, policies.PerSecond(10), func(store.Instant) store.Holding { return store.Holding{} })
		g := s.ask(t, store.Call{MaxWait: store.Forever})
		require.LessOrEqual(t, g.Wait(), 200*time.Millisecond, "nobody was there")
		s.Close()
	})
}

// A process that loses the store takes no permit that others hold, until their leases have run out.
func TestAProcessKnowsThePermitsOfOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ out, free int64 }{"all": {10, 0}, "most": {8, 2}, "half": {5, 5}, "few": {2, 5}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := lost(t, policies.InFlight(10), func(now store.Instant) store.Holding {
					return store.Holding{Permits: c.out, Until: now.Add(30 * time.Second)}
				})
				runs := func(from int64) (n int64) {
					for i := range int64(10) {
						if s.ask(t, store.Call{ID: 1e14 + from + i, MaxWait: store.Forever}).OK {
							n++
						}
					}
					return n
				}
				require.Equal(t, c.free, runs(0))
				s.Close()
			})
		})
	}
}

// What a heartbeat brings may have been given back since: a store is not reminded of it.
func TestNoStoreIsRemindedOfWhatAHeartbeatBrought(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := quota()
		g, err := s.reserve(t.Context())
		require.NoError(t, err)
		bucket := g.Charges[0].From
		s.shared.set(func() { s.shared.holds = []store.Holding{{Buckets: []store.Charge{{From: bucket, To: 61}}}} })
		time.Sleep(5 * time.Second) // others had 60, and have given them back by now
		s.shared.set(func() { s.shared.down = true })
		_, err = s.reserve(t.Context())
		require.NoError(t, err)
		s.shared.set(func() { s.shared.down = false })
		time.Sleep(10 * time.Second)
		require.Equal(t, int64(98), s.left(t))
		s.Close()
	})
}
