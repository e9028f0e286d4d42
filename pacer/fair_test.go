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

// Tenants have equal parts of the real costs of their calls, however high one of them estimates its costs, and however dear its calls are.
func TestFairSharesAreOfWhatCallsReallyCost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{
			Upstream: "llm", MaxWait: pacer.Forever,
			Policies: []policies.Policy{policies.PerMinute(600_000).Burst(60_000).Fair("tenant").Named("tokens")},
		})
		require.NoError(t, err)
		defer p.Close()
		tenants := []struct {
			name           string
			estimate, real int64
			used           atomic.Int64
		}{{name: "exact", estimate: 1000, real: 1000}, {name: "careful", estimate: 4000, real: 1000}, {name: "careless", estimate: 500, real: 1000}, {name: "dear", estimate: 10_000, real: 8000}}
		ctx, end := context.WithTimeout(t.Context(), 40*time.Second)
		defer end()
		began := time.Now()
		var all sync.WaitGroup
		for i := range tenants {
			one := &tenants[i]
			for range 60 {
				all.Go(func() {
					for {
						r, err := p.Acquire(ctx, pacer.Scope("tenant", one.name), pacer.EstimateOf("tokens", one.estimate, policies.Learned{}))
						if err != nil {
							return
						}
						time.Sleep(300 * time.Millisecond)
						_ = r.Settle(context.WithoutCancel(ctx), policies.Cost{Policy: "tokens", N: one.real})
						r.Release()
						if time.Since(began) > 10*time.Second {
							one.used.Add(one.real)
						}
					}
				})
			}
		}
		all.Wait()
		total := int64(0)
		for i := range tenants {
			total += tenants[i].used.Load()
		}
		require.Greater(t, total, int64(285_000))
		for i := range tenants {
			require.InDelta(t, total/4, tenants[i].used.Load(), float64(total)*0.04, tenants[i].name)
		}
	})
}
