package bench_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func growthOfSleeping(t *testing.T, full bool) section {
	t.Helper()
	b := newBackend(t)
	g := growth{
		title: "Growth: sleeping calls", file: "growth-sleeping.svg", x: "sleeping calls", points: points(full, 1, 10, 100, 1_000, 10_000),
		text: `A slot is reserved and given back, behind a line of calls of the same process that sleep until theirs. Over Redis that is
two requests.

What a cost grows as is the k of N^k: over the last two decades of N, or over all of it where linear growth is allowed. Up to 0.25
is taken for a logarithm: one that starts at nothing shows 0.15 from 100 to 10,000, a square root 0.5.`,
	}
	memory, redis := both(t, b, full, g.points, func(n int, upstream string, store store.Store) []contender {
		// Ten minutes, so that none of them wakes meanwhile.
		p := newPacer(t, upstream, store, []policies.Policy{policies.Every(10 * time.Minute)})
		require.NoError(t, p.Wait(t.Context()))
		for range n {
			r, err := p.Reserve(t.Context())
			require.NoError(t, err)
			go func() { _ = r.Wait(context.Background()) }() // until the Pacer is closed
		}
		return []contender{{name: headway, decide: thereAndBack(p)}}
	})
	g.lines, g.late = costs("", headway, memory, redis), latest(memory, redis)
	return g.section()
}

func growthOfPolicies(t *testing.T, full bool) section {
	t.Helper()
	b := newBackend(t)
	g := growth{
		title: "Growth: policies", file: "growth-policies.svg", x: "policies", points: points(full, 1, 2, 4, 8, 16), linear: true,
		text: "A Wait that need not wait, by the number of policies in the stack.",
	}
	memory, redis := both(t, b, full, g.points, func(n int, upstream string, store store.Store) []contender {
		var stack []policies.Policy
		for i := range n {
			stack = append(stack, wide(fmt.Sprint("policy-", i)))
		}
		return []contender{waits(headway, newPacer(t, upstream, store, stack), n)}
	})
	g.lines, g.late = costs("", headway, memory, redis), latest(memory, redis)
	return g.section()
}

func growthOfGaps(t *testing.T, full bool) section {
	t.Helper()
	b := newBackend(t)
	g := growth{
		title: "Growth: gaps", file: "growth-gaps.svg", x: "gaps", points: points(full, 0, 1, 10, 100, 1_000),
		text: `Of a line of reservations in one key every other one was given back, which leaves gaps as long as the emission
interval, and at the end of the line two neighbours. A slot is reserved and given back: *any fits*: by calls of cost 1 that may go no
earlier than somewhere among the gaps; *the last fits*: by calls of cost 2, for which all gaps but that at the end are too short; *none
fits*: by calls of cost 3, which go behind the line. Over Redis that is two requests.`,
	}
	kinds := []string{"any fits", "the last fits", "none fits"}
	memory, redis := both(t, b, full, g.points, func(n int, upstream string, store store.Store) []contender {
		p := gappy(t, n, upstream, store)
		return []contender{
			{name: kinds[0], decide: func(ctx context.Context, i int) error {
				place := mix(uint64(i)) % uint64(max(1, n))
				return thereAndBack(p, pacer.NotBefore(time.Duration(lead+2*place)*gapInterval))(ctx, i)
			}},
			{name: kinds[1], decide: thereAndBack(p, pacer.Cost(2))},
			{name: kinds[2], decide: thereAndBack(p, pacer.Cost(3))},
		}
	})
	g.late = latest(memory, redis)
	for _, kind := range kinds {
		g.lines = append(g.lines, costs(kind+", ", kind, memory, redis)...)
	}
	return g.section()
}

const (
	gapInterval = time.Minute
	lead        = 10 // reservations before the first gap, so that none passes while it is measured
)

// gappy returns a Pacer with one key whose gaps each hold one call of cost 1, and behind them another, whose gaps hold one of cost 2.
func gappy(t *testing.T, gaps int, upstream string, store store.Store) *pacer.Pacer {
	t.Helper()
	p := newPacer(t, upstream, store, []policies.Policy{policies.Every(gapInterval).Burst(3)})
	line := make([]*pacer.Reservation, lead+2*gaps+3)
	for i := range line {
		r, err := p.Reserve(t.Context())
		require.NoError(t, err)
		line[i] = r
	}
	end := len(line) - 3
	for i := lead; i < end; i += 2 {
		require.NoError(t, line[i].NotUsed(t.Context()))
	}
	require.NoError(t, line[end].NotUsed(t.Context()))
	require.NoError(t, line[end+1].NotUsed(t.Context()))
	// That of a burst of 3 goes two intervals before its own, if it costs 1. The search for a gap ends behind many that are too short.
	last := end - 1
	if gaps >= numbers.MaxLooks {
		last = len(line) - 1
	}
	for cost, place := range map[int64]int{1: lead - 2, 2: last, 3: len(line)} {
		if gaps == 0 && cost == 1 {
			continue
		}
		r, err := p.Reserve(t.Context(), pacer.Cost(cost))
		require.NoError(t, err)
		require.InDelta(t, place, float64(r.Delay())/float64(gapInterval), 0.9, "where a call of cost %d goes", cost)
		require.NoError(t, r.NotUsed(t.Context()))
	}
	return p
}

// ofTenant is a Wait for one of the first n tenants, at random.
func ofTenant(p *pacer.Pacer, names []string, n int) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		return p.Wait(ctx, pacer.Scope("tenant", names[mix(uint64(i))%uint64(n)]))
	}
}

// loading bounds how long it takes to write the keys of the last points into Redis.
const loading = 20 * time.Second

func growthOfKeys(t *testing.T, full bool) section {
	t.Helper()
	b := newBackend(t)
	g := growth{
		title: "Growth: keys", file: "growth-keys.svg", x: "keys", points: points(full, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000),
	}
	most := g.points[len(g.points)-1]
	names := make([]string, most)
	for i := range names {
		names[i] = fmt.Sprint("tenant-", i)
	}

	p := newPacer(t, "growth-keys", newRedisStore(t, b), []policies.Policy{lasting(few)})
	loaded, left := 0, loading
	redis := line{name: "Redis CPU", unit: "µs"}
	var overEmpty []float64
	for i, n := range g.points {
		begin := time.Now()
		loaded = load(t, p, names[:n], loaded, begin.Add(left))
		left -= time.Since(begin)
		g.points[i] = loaded
		contenders := []contender{
			{name: emptyScript, decide: runEmpty(b)},
			{name: headway, limits: 1, decide: ofTenant(p, names, loaded)},
		}
		r := course{rounds: 9, goroutines: 1, turn: 60 * time.Millisecond, backend: b}.smoke(full).run(t, contenders)
		g.late = max(g.late, r.latest())
		one := r.at(headway, 1)
		redis.values = append(redis.values, r.median(one, cpu))
		overEmpty = append(overEmpty, r.ratio(one, r.at(emptyScript, 0), cpu))
		redis.times = append(redis.times, overEmpty[i]/overEmpty[0])
		if loaded < n {
			g.points = g.points[:i+1]
		}
		if i+1 == len(g.points) {
			break
		}
	}

	var memory []contender
	for _, n := range g.points {
		p := newPacer(t, "growth-keys", nil, []policies.Policy{lasting(n)})
		load(t, p, names[:n], 0, time.Now().Add(time.Hour))
		memory = append(memory, contender{name: headway, limits: 1, decide: ofTenant(p, names, n)})
	}
	r := course{rounds: 9, goroutines: 1, turn: 40 * time.Millisecond}.smoke(full).run(t, memory)
	g.late = max(g.late, r.latest())
	g.lines = []line{lineOf("in memory", "ns", r, headway, nanos, 1), redis}
	g.text = fmt.Sprintf(`A Wait that need not wait, for a tenant at random, by the number of tenants that have a key. Redis was given as many
keys as fit into %s of loading. One Redis has more and more of them, so its points are not of the same rounds: what grows is the ratio to an
empty script in the same round.`, loading)
	require.Zero(t, b.sent.failed.Load(), "requests failed")
	return g.section()
}

// load lets each of the names that are not loaded yet through once, and returns how many are loaded when the time is over.
func load(t *testing.T, p *pacer.Pacer, names []string, loaded int, deadline time.Time) int {
	t.Helper()
	const together, chunk = 256, 4096
	for loaded < len(names) && time.Now().Before(deadline) {
		part := names[loaded:min(len(names), loaded+chunk)]
		errs := make([]error, together)
		var done sync.WaitGroup
		for g := range together {
			done.Go(func() {
				for i := g; i < len(part) && errs[g] == nil; i += together {
					errs[g] = p.Wait(t.Context(), pacer.Scope("tenant", part[i]))
				}
			})
		}
		done.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		loaded += len(part)
	}
	return loaded
}
