//go:build measure

package bench_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// TestPartiesCostLittle compares what calls of two parties and of none cost, on a limit that keeps parts for the two, with what calls cost on
// the same limit without parts, in turns: of Redis the time of EVALSHA, in memory that of the call.
func TestPartiesCostLittle(t *testing.T) { //nolint:paralleltest // what is compared is measured one after the other
	const most = 1.3
	for name, limit := range map[string]policies.Policy{
		"rate": policies.PerSecond(1_000_000).Burst(1_000_000), "exact": policies.AtMost(256, time.Millisecond).Burst(256),
		"sliding": policies.Sliding(1_000_000_000, time.Second), "fixed": policies.Fixed(1_000_000_000, time.Minute),
		"calendar": policies.Daily(1_000_000_000, time.UTC), "permits": policies.InFlight(100),
	} {
		for _, kind := range []string{"redis", "memory"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				var b *backend
				var all [2][]policies.Policy
				all[0] = []policies.Policy{limit.Named("limit")}
				all[1] = []policies.Policy{limit.Reserve("desk", 30).Reserve("sync", 20).Named("limit")}
				var prices []*price
				for i, stack := range all {
					var shared store.Store
					if kind == "redis" {
						if b == nil {
							b = newBackend(t)
						}
						shared = newRedisStore(t, b)
					}
					p := newPacer(t, fmt.Sprint("stack", i), shared, stack)
					asks := p.Wait
					if name == "permits" {
						asks = func(ctx context.Context, opts ...pacer.Option) error {
							r, err := p.Acquire(ctx, opts...)
							if err == nil {
								r.Release()
							}
							return err
						}
					}
					prices = append(prices, &price{asks: asks})
				}
				contexts := []context.Context{t.Context(), pacer.With(t.Context(), pacer.Lane("desk")), pacer.With(t.Context(), pacer.Lane("sync"))}
				timers := measure.Watch()
				took := func() (usec float64) { usec, _ = evalsha(t, b.rdb); return usec }
				calls := 60
				if began := time.Now(); kind == "memory" {
					took, calls = func() float64 { return float64(time.Since(began).Nanoseconds()) / 1e3 }, 6000
				}
				for range measure.Length(20, 200) {
					for _, p := range prices {
						before := took()
						for n := range calls {
							require.NoError(t, p.asks(contexts[n%3]))
						}
						p.rounds = append(p.rounds, (took()-before)/float64(calls))
					}
				}
				without, with := middle(prices[0].rounds), middle(prices[1].rounds)
				measure.Judge(t, timers.Stop(), calm, fmt.Sprintf("%.2f µs without parties, %.2f µs with: %.2f times", without, with, with/without), with <= most*without)
			})
		}
	}
}
