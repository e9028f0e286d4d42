package bench_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// Names of the contenders of keyed.
const (
	headwayOption = "Headway, the tenant as an option"
	timeRateMap   = "sync.Map of x/time/rate limiters"
)

// keyed are contenders that have one limit for each of some keys, which exist already and are chosen at random.
func keyed(t testing.TB, keys int) []contender {
	t.Helper()
	names := make([]string, keys)
	contexts := make([]context.Context, keys)
	for i := range names {
		names[i] = fmt.Sprint("tenant-", i)
		contexts[i] = pacer.With(t.Context(), pacer.Scope("tenant", names[i])) //nolint:fatcontext // one for each tenant
	}
	p := newPacer(t, "bench", nil, []policies.Policy{lasting(keys)})
	limiter := func() *rate.Limiter {
		if keys < few {
			return rate.NewLimiter(wideRate, wideBurst)
		}
		return rate.NewLimiter(rate.Every(time.Minute), 1_000_000)
	}
	var limiters sync.Map
	for i, name := range names {
		require.NoError(t, p.Wait(contexts[i]))
		limiters.Store(name, limiter())
	}
	pick := func(i int) int { return int(mix(uint64(i)) % uint64(keys)) }
	return []contender{
		{name: timeRateMap, limits: 1, decide: func(ctx context.Context, i int) error {
			name := names[pick(i)]
			l, ok := limiters.Load(name)
			if !ok {
				l, _ = limiters.LoadOrStore(name, limiter())
			}
			return l.(*rate.Limiter).Wait(ctx)
		}},
		{name: headway, limits: 1, decide: func(_ context.Context, i int) error {
			return p.Wait(contexts[pick(i)]) //nolint:contextcheck // the tenant's
		}},
		{name: headwayOption, limits: 1, decide: func(ctx context.Context, i int) error {
			return p.Wait(ctx, pacer.Scope("tenant", names[pick(i)]))
		}},
	}
}

// few keys are used again before they are forgotten, and so often that their limits must be wide.
const few = 1_000

// lasting is a limit for each of so many tenants, whose keys are not forgotten while they are measured.
func lasting(keys int) policies.Policy {
	if keys < few {
		return wide("tenant").Per("tenant")
	}
	return policies.Every(time.Minute).Burst(1_000_000).Named("tenant").Per("tenant")
}

// mix spreads a number over all 64 bits.
func mix(n uint64) uint64 { return rand.NewPCG(n, 0).Uint64() }

// contentionSection measures many goroutines at one key and at many.
func contentionSection(t *testing.T, full bool) section {
	t.Helper()
	many := 100_000
	if !full {
		many = 100
	}
	s := section{
		title: "Keys and lock contention, in memory",
		text: `One limit for each tenant, which all exist already; each decision is for a tenant at random. The peer is what people write: a
sync.Map of limiters of x/time/rate, which forgets nothing. The context of each tenant exists, too; *as an option* it is made for
each call.`,
		head: []string{"asked for leave", "keys", "goroutines", "ns per decision", "÷ the sync.Map", "allocations"},
	}
	for _, keys := range []int{1, many} {
		contenders := keyed(t, keys)
		for _, goroutines := range []int{runtime.GOMAXPROCS(0), 1_000} {
			r := course{rounds: 11, goroutines: goroutines, turn: 60 * time.Millisecond}.smoke(full).run(t, contenders)
			for i, c := range r.contenders {
				s.rows = append(s.rows, []string{
					c.name, number(float64(keys)), number(float64(goroutines)), number(r.median(i, nanos)),
					number(r.ratio(i, r.at(timeRateMap, 1), nanos)), whole(r.median(i, allocs)),
				})
			}
			if keys == many {
				crowd := "a goroutine for each core"
				if goroutines == 1_000 {
					crowd = "1,000 goroutines"
				}
				s.targets = append(s.targets, most("Wait in memory with 100,000 keys, "+crowd+", ÷ a sync.Map of x/time/rate limiters", 1,
					r.ratio(r.at(headway, 1), r.at(timeRateMap, 1), nanos)).timed(r.latest(), calm))
			}
		}
	}
	return s
}
