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

// ask reserves one call that goes now, or leaves it.
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

// A charge in a heartbeat may have been given back since: a store is not reminded of it.
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

// A store that was restarted from an old snapshot finds out by the first heartbeat, whether or not the process noticed that it was away. Then
// it learns all that the process knows: what heartbeats had brought, too.
func TestAStoreThatRestartsFromASnapshot(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]time.Duration{"in a moment": 0, "after a while": 3 * time.Second, "after longer than heartbeats count": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := quota()
				g, err := s.reserve(t.Context())
				require.NoError(t, err)
				bucket := g.Charges[0].From
				s.shared.set(func() { s.shared.holds = []store.Holding{{Buckets: []store.Charge{{From: bucket, To: 61}}}} })
				time.Sleep(5 * time.Second)
				var before, after store.Epoch
				s.shared.set(func() {
					before = s.shared.epoch
					s.shared.mem, s.shared.until, s.shared.down = memstore.New(), nil, outage > 0
					s.shared.holds = []store.Holding{{}}
				})
				if outage > 0 {
					_, err = s.reserve(t.Context())
					require.NoError(t, err)
				}
				time.Sleep(outage)
				s.shared.set(func() { s.shared.down = false })
				time.Sleep(5 * time.Second)
				s.shared.set(func() { after = s.shared.epoch })
				require.Equal(t, outage < 10*time.Second, after.Began > before.Began, "bookings of before are refused")
				spent := int64(61)
				if outage > 0 {
					spent++
				}
				require.Equal(t, 100-spent, s.left(t))
				s.Close()
			})
		})
	}
}

// The last call of a rate may be known only from a heartbeat.
func TestAStoreThatForgotLearnsTheLineOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSceneOf(failover.Local, policies.Every(time.Hour).Named("p"))
		s.shared.set(func() { s.shared.holds = []store.Holding{{Taken: time.Hour}} })
		_, err := s.Status(t.Context(), s.stack)
		require.NoError(t, err)
		s.shared.set(func() { s.shared.mem, s.shared.epoch, s.shared.holds = memstore.New(), store.Epoch{Began: 8_000}, nil })
		time.Sleep(5 * time.Second)
		var g [1]store.Grant
		require.NoError(t, s.Reserve(t.Context(), s.stack, []store.Call{{Cost: 1}}, g[:]))
		require.False(t, g[0].OK)
		s.Close()
	})
}

// A process that returns reserves its whole share until the store decides, though a call begins each time that it looks which ones run. One
// whose share is too large for that begins none meanwhile.
func TestAReturnReservesTheShare(t *testing.T) {
	t.Parallel()
	for limit, reserved := range map[int64]int64{8: 4, 9000: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := lost(t, policies.InFlight(limit), func(store.Instant) store.Holding { return store.Holding{} })
			require.True(t, s.ask(t, store.Call{ID: 1e14, MaxWait: store.Forever}).OK)
			s.mu.Lock()
			s.busy = true
			s.mu.Unlock()
			s.shared.set(func() { s.shared.down = false })
			for s.left(t) == limit { // the next probe finds the store
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
			}
			require.GreaterOrEqual(t, limit-s.left(t), max(1, reserved))
			require.Equal(t, reserved > 0, s.ask(t, store.Call{ID: 2e14, MaxWait: store.Forever}).OK, "before the barrier")
			s.Close()
		})
	}
}
