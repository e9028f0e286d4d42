package faulttest_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A desk finds its part of a quota, and no more than the quota is spent, whatever happens while a batch job waits for more: in the third
// window of a minute, and in the fourth one. All of a window is used that nothing happened to.
func TestPartsHoldWhateverHappens(t *testing.T) {
	t.Parallel()
	const windows = 6
	quota := policies.Fixed(400, time.Minute).Reserve("desk", 30).Named("quota")
	same := func(n int64) [windows]int64 { return [windows]int64{n, n, n, n, n, n} }
	set := func(with policies.Policy) func(*testing.T, *faulty.Store, []*pacer.Pacer) {
		return func(t *testing.T, _ *faulty.Store, both []*pacer.Pacer) {
			t.Helper()
			require.NoError(t, fleet.Of(both[1]).SetPolicies(t.Context(), with.Named("quota")))
		}
	}
	for name, c := range map[string]struct {
		third, fourth func(*testing.T, *faulty.Store, []*pacer.Pacer)
		limit         [windows]int64
		each          [windows]int64 // what a call of the desk costs, forty times in each window
	}{
		"nothing": {limit: same(400), each: same(3)},
		"raised":  {third: set(policies.Fixed(800, time.Minute).Reserve("desk", 30)), limit: [windows]int64{400, 400, 800, 800, 800, 800}, each: [windows]int64{3, 3, 3, 6, 6, 6}},
		"lowered": {third: set(policies.Fixed(200, time.Minute).Reserve("desk", 20)), limit: [windows]int64{400, 400, 400, 200, 200, 200}, each: [windows]int64{3, 3, 0, 1, 1, 1}},
		"another part": {
			third: set(policies.Fixed(400, time.Minute).Reserve("desk", 60)), limit: same(400), each: [windows]int64{3, 3, 3, 6, 6, 6},
		},
		"forgotten": {
			third: func(_ *testing.T, r *faulty.Store, _ []*pacer.Pacer) { r.Forget() }, limit: same(400), each: [windows]int64{3, 3, 0, 3, 3, 3},
		},
		"away": {
			third:  func(_ *testing.T, r *faulty.Store, _ []*pacer.Pacer) { r.Suffer(faulty.Faults{All: faulty.ErrDown}) },
			fourth: func(_ *testing.T, r *faulty.Store, _ []*pacer.Pacer) { r.Suffer(faulty.Faults{}) },
			limit:  same(400), each: [windows]int64{3, 3, 0, 1, 3, 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
				r, began := faulty.New(), time.Now()
				both := []*pacer.Pacer{parted(t, r, quota), parted(t, r, quota)}
				ctx, end := context.WithTimeout(t.Context(), windows*time.Minute-time.Second)
				defer end()
				var mu sync.Mutex
				var spent [windows]int64
				spend := func(n int64) {
					mu.Lock()
					defer mu.Unlock()
					spent[time.Since(began)/time.Minute] += n
				}
				var calls sync.WaitGroup
				for i := range 8 {
					calls.Go(func() {
						rng := rand.New(rand.NewPCG(1, uint64(i)))
						for {
							cost := 1 + rng.Int64N(5)
							switch rng.IntN(8) {
							case 0: // a call that gives up
								soon, end := context.WithTimeout(ctx, 300*time.Millisecond)
								if both[i%2].Wait(soon, pacer.Cost(cost), pacer.MaxWait(pacer.Forever)) == nil {
									spend(cost)
								}
								if end(); ctx.Err() != nil {
									return
								}
							case 1: // one that costs less than was estimated
								v, err := both[i%2].Acquire(ctx, pacer.EstimateOf("quota", 2*cost, policies.Learned{}), pacer.MaxWait(pacer.Forever))
								if err != nil {
									return
								}
								spend(cost)
								time.Sleep(50 * time.Millisecond)
								require.NoError(t, v.Settle(context.WithoutCancel(ctx), policies.Cost{Policy: "quota", N: cost}))
								v.Release()
							default:
								if both[i%2].Wait(ctx, pacer.Cost(cost), pacer.MaxWait(pacer.Forever)) != nil {
									return
								}
								spend(cost)
							}
						}
					})
				}
				for w := range windows {
					for second := range 40 {
						if second == 20 && w == 2 && c.third != nil {
							c.third(t, r, both)
						}
						if second == 20 && w == 3 && c.fourth != nil {
							c.fourth(t, r, both)
						}
						if each := c.each[w]; each > 0 {
							if assert.NoError(t, both[0].Wait(t.Context(), pacer.Lane("desk"), pacer.Cost(each), pacer.MaxWait(0)), "at %v", time.Since(began)) {
								spend(each)
							}
						}
						time.Sleep(time.Until(began.Add(time.Duration(w)*time.Minute + time.Duration(second+1)*time.Second)))
					}
					time.Sleep(time.Until(began.Add(time.Duration(w+1) * time.Minute)))
				}
				end()
				calls.Wait()
				t.Log(spent)
				for w, most := range c.limit {
					if c.third != nil && w == 2 || c.fourth != nil && w == 3 {
						continue
					}
					require.LessOrEqual(t, spent[w], most, "window %d", w)
					if w > 0 && w < windows-1 {
						require.GreaterOrEqual(t, spent[w], most*97/100, "window %d", w)
					}
				}
				for _, p := range both {
					require.NoError(t, p.Close())
				}
			})
		})
	}
}

func parted(t *testing.T, s store.Store, quota policies.Policy) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{
		Upstream: "api", Store: s, Policies: []policies.Policy{quota}, Outage: pacer.PaceLocally, Processes: 2, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return p
}
