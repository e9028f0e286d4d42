package pacer_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// However slow the store is, nothing outlasts its deadline by more than four StoreTimeouts: see Config.StoreTimeout.
func TestNothingOutlastsItsDeadline(t *testing.T) {
	t.Parallel()
	length := extent(5*time.Second, time.Minute)
	for seed := range extent[uint64](2, 10) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			f := newFarAway()
			list := []policies.Policy{policies.PerSecond(20).Burst(2), policies.AtMost(5, time.Second).Per("tenant")}
			p, err := pacer.New(pacer.Config{Upstream: "api", Store: f, Policies: list, MaxWait: pacer.Forever})
			require.NoError(t, err)
			defer p.Close()
			require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "a")))
			ctx, cancel := context.WithTimeout(t.Context(), length)
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() {
				for ctx.Err() == nil {
					f.set(nil, time.Duration(rng.Int64N(int64(260*ms))))
					time.Sleep(time.Duration(1 + rng.Int64N(int64(100*ms))))
				}
			})
			var mu sync.Mutex
			longest := map[string]time.Duration{}
			over := func(what string, deadline time.Time) {
				mu.Lock()
				defer mu.Unlock()
				longest[what] = max(longest[what], time.Since(deadline))
			}
			for i := range 24 {
				rng := rand.New(rand.NewPCG(seed, uint64(2+i)))
				all.Go(func() {
					for ctx.Err() == nil {
						ctx, cancel := context.WithTimeout(ctx, time.Duration(1+rng.Int64N(int64(400*ms))))
						deadline, _ := ctx.Deadline()
						tenant := pacer.Scope("tenant", string(rune('a'+rng.IntN(3))))
						switch rng.IntN(10) {
						case 0:
							_ = p.Report(ctx, policies.Feedback{Wait: time.Duration(rng.Int64N(int64(400 * ms)))})
							over("Report", deadline)
						case 1, 2, 3, 4:
							r, err := p.Reserve(ctx, tenant)
							over("Reserve", deadline)
							if err == nil {
								_ = r.Wait(ctx)
								over("Reservation.Wait", deadline)
							}
						default:
							_ = p.Wait(ctx, tenant)
							over("Wait", deadline)
						}
						cancel()
						time.Sleep(time.Duration(1 + rng.Int64N(int64(30*ms))))
					}
				})
			}
			all.Wait()
			t.Log(longest)
			for what, d := range longest {
				require.LessOrEqual(t, d, 4*250*time.Millisecond, what)
			}
		})
	}
}
