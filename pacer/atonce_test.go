package pacer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// Processes that start in the same instant, without an earlier request to the store, use the limit from the first call on.
func TestProcessesThatBeginAtOnce(t *testing.T) {
	t.Parallel()
	const perSecond, lasts = 20, 10 * time.Second
	for name, list := range map[string][]policies.Policy{
		"a rate":           {policies.PerSecond(perSecond)},
		"an exact rate":    {policies.AtMost(perSecond, time.Second).Skew(0)},
		"a window":         {policies.Sliding(perSecond, time.Second).Skew(0)},
		"a rate of tenant": {policies.PerSecond(perSecond), policies.PerSecond(7).Per("tenant")},
		"fair shares":      {policies.PerSecond(perSecond).Fair("tenant")},
	} {
		for _, way := range []time.Duration{0, 60 * ms} {
			t.Run(fmt.Sprintf("%s, %v away", name, way), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := newFarAway()
					f.goes(way)
					ctx, cancel := context.WithCancel(t.Context())
					var all callers
					ps := []*pacer.Pacer{f.pacer(t, list...), f.pacer(t, list...)}
					for _, p := range ps {
						for _, tenant := range []string{"a", "b", "c"} {
							all.call(ctx, t, p, 20, 0, pacer.Scope("tenant", tenant))
						}
					}
					time.Sleep(lasts)
					used := float64(all.went.Load()) / (perSecond * lasts.Seconds())
					t.Logf("%.1f %%", 100*used)
					require.GreaterOrEqual(t, used, 0.98)
					cancel()
					all.wg.Wait()
					for _, p := range ps {
						require.NoError(t, p.Close())
					}
				})
			})
		}
	}
}
