//go:build measure

package bench_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/policies"
)

// A price is what one EVALSHA takes of a server for a call, in µs.
type price struct {
	asks   func(context.Context, ...pacer.Option) error
	rounds []float64
}

// TestAWindowCostsLittleMoreThanARate compares what windows of a hundred buckets, all of them in use, take of a server with what
// rates do, in turns: the time of EVALSHA in INFO commandstats.
func TestAWindowCostsLittleMoreThanARate(t *testing.T) { //nolint:tparallel // what is compared is measured one after the other
	t.Parallel()
	const most = 1.5
	for _, names := range [][]string{{"a"}, {"a", "b", "c"}} {
		t.Run(fmt.Sprint(len(names)), func(t *testing.T) {
			b := newBackend(t)
			var rates, windows []policies.Policy
			for _, name := range names {
				rates = append(rates, policies.PerSecond(1_000_000).Burst(1_000_000_000).Named(name))
				windows = append(windows, policies.Sliding(1_000_000_000, time.Second).Named(name))
			}
			var prices []*price
			for i, stack := range [][]policies.Policy{rates, windows} {
				prices = append(prices, &price{asks: newPacer(t, fmt.Sprint("stack", i), newRedisStore(t, b), stack).Wait})
			}
			timers := measure.Watch()
			ratio := compare(t, b.rdb, prices, measure.Length(20, 400))
			figures := fmt.Sprintf("windows %.1f µs, rates %.1f µs: %.2f times", middle(prices[1].rounds), middle(prices[0].rounds), ratio)
			measure.Judge(t, timers.Stop(), calm, figures, ratio <= most)
		})
	}
}

// compare runs both in turns, and returns the median of the ratios of the second to the first.
func compare(t *testing.T, rdb *redis.Client, prices []*price, rounds int) float64 {
	t.Helper()
	const calls = 50 // so few that no bucket passes without a call
	var ratios []float64
	for round := range rounds + 1 { // the first makes the server know the scripts
		for _, p := range prices {
			before, callsBefore := evalsha(t, rdb)
			for range calls {
				require.NoError(t, p.asks(t.Context()))
			}
			after, callsAfter := evalsha(t, rdb)
			if round > 0 {
				p.rounds = append(p.rounds, (after-before)/(callsAfter-callsBefore))
			}
		}
		if round > 0 {
			ratios = append(ratios, prices[1].rounds[round-1]/prices[0].rounds[round-1])
		}
	}
	return middle(ratios)
}

func middle(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// evalsha returns how long a server has run scripts, in µs, and how many.
func evalsha(t *testing.T, rdb *redis.Client) (usec, calls float64) {
	t.Helper()
	info, err := rdb.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	m := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+),usec=(\d+)`).FindStringSubmatch(info)
	if m == nil {
		return 0, 0
	}
	calls, err = strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	usec, err = strconv.ParseFloat(m[2], 64)
	require.NoError(t, err)
	return usec, calls
}

// TestAWindowAtItsLimitCostsLittleMoreThanARate compares the cost of waiting calls for a server: two stacks at their limits, at the same
// time, each on a server of its own. A lone window has room for many calls at once, which then share a script; behind a rate that is as
// slow, its calls wait one by one, and all its buckets are in use.
func TestAWindowAtItsLimitCostsLittleMoreThanARate(t *testing.T) { //nolint:tparallel // what is compared is measured one after the other
	t.Parallel()
	const perSecond = 1000
	rate := policies.PerSecond(perSecond)
	sliding := func(seconds int64) policies.Policy {
		return policies.Sliding(perSecond*seconds, time.Duration(seconds)*time.Second)
	}
	for _, tt := range []struct {
		name           string
		rates, windows []policies.Policy
		most           float64
	}{
		{"one", []policies.Policy{rate}, []policies.Policy{sliding(1)}, 1.5},
		{"three", []policies.Policy{rate, rate.Burst(100), rate.Burst(1000)}, []policies.Policy{sliding(1), sliding(2), sliding(3)}, 1.5},
		{"beside a rate", []policies.Policy{rate, policies.PerSecond(990).Burst(100)}, []policies.Policy{rate, policies.Sliding(990, time.Second)}, 1.5},
		{"wide beside a rate", []policies.Policy{rate, policies.PerSecond(1100).Burst(100)}, []policies.Policy{rate, policies.Sliding(1100, time.Second)}, 1.5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const callers = 4
			var calls [2]atomic.Int64
			backends := [2]*backend{newBackend(t), newBackend(t)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var callersDone sync.WaitGroup
			for i, stack := range [][]policies.Policy{tt.rates, tt.windows} {
				for j := range stack {
					stack[j] = stack[j].Named(fmt.Sprint("limit", j))
				}
				p := newPacer(t, "upstream", newRedisStore(t, backends[i]), stack)
				for range callers {
					callersDone.Go(func() {
						for p.Wait(ctx) == nil {
							calls[i].Add(1)
						}
					})
				}
			}
			time.Sleep(measure.Length(500*time.Millisecond, 3*time.Second)) // until all buckets are in use
			timers := measure.Watch()
			var before, each [2]float64
			for i, b := range backends {
				before[i], _ = evalsha(t, b.rdb)
				calls[i].Store(0)
			}
			time.Sleep(measure.Length(time.Second, 10*time.Second))
			for i, b := range backends {
				usec, _ := evalsha(t, b.rdb)
				n := calls[i].Load()
				require.NotZero(t, n)
				each[i] = (usec - before[i]) / float64(n)
			}
			cancel()
			callersDone.Wait()
			ratio := each[1] / each[0]
			figures := fmt.Sprintf("windows %.1f µs, rates %.1f µs: %.2f times", each[1], each[0], ratio)
			measure.Judge(t, timers.Stop(), calm, figures, ratio <= tt.most)
		})
	}
}
