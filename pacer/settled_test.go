package pacer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// Calls that cost half of their estimates use the whole rate if its burst holds the excess until it is given back. Otherwise their costs
// have to be learned.
func TestEstimatesThatAreTooHigh(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		burst       int64
		takes       time.Duration
		actual      int64
		learned     bool
		least, most float64
	}{
		"half":                              {200, 300 * ms, 10, false, 0.99, 1.01},
		"half, and slow answers":            {1000, 3 * time.Second, 10, false, 0.99, 1.01},
		"a quarter":                         {1000, time.Second, 5, false, 0.99, 1.01},
		"three quarters":                    {1000, time.Second, 15, false, 0.9, 0.95},
		"the burst holds one call":          {20, 20 * ms, 10, false, 0.49, 0.51},
		"the burst holds one call, learned": {20, 20 * ms, 10, true, 0.98, 1.01},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cost := pacer.CostOf("units", 20)
				if c.learned {
					cost = pacer.EstimateOf("units", 20, policies.Learned{Times: 1, Most: 20})
				}
				p := newPacer(t, pacer.Config{Policies: []policies.Policy{policies.PerSecond(100).Burst(c.burst).Named("units")}, MaxWait: pacer.Forever})
				ctx, cancel := context.WithCancel(t.Context())
				var spent atomic.Int64
				var callers sync.WaitGroup
				for range 100 {
					callers.Go(func() {
						for {
							r, err := p.Acquire(ctx, cost)
							if err != nil {
								return
							}
							spent.Add(c.actual)
							time.Sleep(c.takes)
							_ = r.Settle(ctx, policies.Cost{Policy: "units", N: c.actual})
						}
					})
				}
				time.Sleep(20 * time.Second)
				before := spent.Load()
				time.Sleep(time.Minute) // some calls more or less at its ends do not matter
				used := float64(spent.Load()-before) / 6000
				cancel()
				callers.Wait()
				require.NoError(t, p.Close())
				t.Logf("%.1f %%", 100*used)
				require.GreaterOrEqual(t, used, c.least)
				require.LessOrEqual(t, used, c.most)
			})
		})
	}
}

// A reservation that is settled before its slot keeps its place: no part of it is before the slot.
func TestAReservationIsSettledEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(100).Burst(100)))
		defer p.Close()
		var all []*pacer.Reservation
		for range 5 {
			r, err := p.Acquire(t.Context(), pacer.Cost(20))
			require.NoError(t, err)
			all = append(all, r)
		}
		time.Sleep(50 * ms)
		require.NoError(t, all[1].Settle(t.Context(), policies.Cost{N: 10})) // it leaves room for ten
		early, err := p.Reserve(t.Context(), pacer.Cost(20))
		require.NoError(t, err)
		require.Equal(t, 150*ms, early.Delay())
		require.NoError(t, early.Settle(t.Context(), policies.Cost{N: 10}))
		require.NoError(t, p.Wait(t.Context(), pacer.Cost(10), pacer.MaxWait(0)))
	})
}
