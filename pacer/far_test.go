package pacer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// However far away the store is, everything that a limit allows is used: two processes, which always have calls that wait.
func TestFarFromTheStore(t *testing.T) {
	t.Parallel()
	tenants := []string{"a", "b", "c"}
	length := extent(10*time.Second, time.Minute)
	for name, list := range map[string][]policies.Policy{
		"a rate":              {policies.PerSecond(20)},
		"a fast rate":         {policies.PerSecond(500)},
		"an exact rate":       {policies.AtMost(20, time.Second).Skew(0)},
		"a window":            {policies.Sliding(20, time.Second).Skew(0)},
		"a rate and a window": {policies.PerSecond(20).Burst(2), policies.Fixed(1200, time.Minute).Skew(0)},
		"a lane":              {policies.PerSecond(20).Burst(2).Lane("batch", 80)},
		"a lane alone":        {policies.PerSecond(20).Burst(2).Lane("batch", 80)},
		"fair shares":         {policies.PerSecond(20).Fair("tenant")},
	} {
		if name == "a fast rate" && extent(true, false) {
			continue // it is for hundreds of callers
		}
		for _, way := range []time.Duration{60 * ms, 150 * ms} {
			synctest.Test(t, func(t *testing.T) {
				f := newFarAway()
				ctx, cancel := context.WithCancel(t.Context())
				var all callers
				var ps []*pacer.Pacer
				for range 2 {
					p := f.pacer(t, list...)
					ps = append(ps, p)
					require.NoError(t, p.Wait(ctx, pacer.Scope("tenant", "a")))
					synctest.Wait()
				}
				f.goes(way)
				n, rate := 20, 20.0
				if name == "a fast rate" {
					n, rate = 400, 500
				}
				for _, p := range ps {
					for _, tenant := range tenants {
						opts := []pacer.Option{pacer.Scope("tenant", tenant)}
						if name == "a lane alone" || name == "a lane" && tenant != "a" {
							opts = append(opts, pacer.Lane("batch"))
						}
						all.call(ctx, t, p, n, 0, opts...)
					}
				}
				time.Sleep(10 * time.Second)
				before := all.went.Load()
				time.Sleep(length)
				used := float64(all.went.Load()-before) / (rate * length.Seconds())
				t.Logf("%s, %v away: %.1f %%", name, way, 100*used)
				require.GreaterOrEqual(t, used, 0.98, name)
				cancel()
				all.wg.Wait()
				for _, p := range ps {
					require.NoError(t, p.Close())
				}
			})
		}
	}
}
