package bench_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Names of contenders that have limits that calls queue for.
const (
	headwayInFlight = "Headway, Acquire and Release, with a limit of calls in flight"
	headwayLane     = "Headway, in a lane"
	headwayFair     = "Headway, by fair shares"
)

// withLines are calls that need not wait, with one limit of each kind, beside one that has no line. Charges that must be given back are.
func withLines(t testing.TB, upstream string, store store.Store) []contender {
	t.Helper()
	rate := policies.PerSecond(wideRate).Burst(wideBurst)
	waiting := func(name string, policy policies.Policy, opts ...pacer.Option) contender {
		p := newPacer(t, upstream+policy.Name(), store, []policies.Policy{policy})
		return contender{name: name, limits: 1, decide: func(ctx context.Context, _ int) error { return p.Wait(ctx, opts...) }}
	}
	held := newPacer(t, upstream+"flight", store, []policies.Policy{rate.Named("peak"), policies.InFlight(wideBurst)})
	return []contender{
		waiting(headway, rate.Named("peak")),
		waiting(headwayLane, rate.Lane("batch", 80).Named("laned"), pacer.Lane("batch")),
		waiting(headwayFair, rate.Fair("tenant").Named("fair"), pacer.Scope("tenant", "acme")),
		{name: headwayInFlight, limits: 2, decide: func(ctx context.Context, _ int) error {
			r, err := held.Acquire(ctx)
			if err == nil {
				r.Release()
			}
			return err
		}},
	}
}

// linesSection measures the cost of limits with a queue, while it is empty.
func linesSection(t *testing.T, full bool) section {
	t.Helper()
	b := newBackend(t)
	s := section{
		title: "Permits, lanes and fair shares",
		text: `A decision that need not wait, with one limit that calls may have to queue for, beside one that has none. A lane is a
second limit beside its rate. Acquire has a rate and a limit of calls in flight, and is followed by its Release, which over Redis
goes in the background, together with others.`,
		head: []string{"asked for leave", "store", "goroutines", "ns per decision", "÷ one limit without a line", "Redis CPU, µs", "requests", "allocations"},
	}
	for _, store := range []string{"memory", "Redis"} {
		for _, goroutines := range []int{1, crowd} {
			c := course{rounds: 17, goroutines: goroutines, turn: 30 * time.Millisecond}
			var contenders []contender
			if upstream := fmt.Sprintf("lines-%d-", goroutines); store == "Redis" {
				c.backend, contenders = b, withLines(t, upstream, newRedisStore(t, b))
			} else {
				contenders = withLines(t, upstream, nil)
			}
			r := c.smoke(full).run(t, contenders)
			plain := r.at(headway, 1)
			for i, one := range r.contenders {
				redisCPU, sent := "–", "–"
				if c.backend != nil {
					redisCPU, sent = number(r.median(i, cpu)), number(r.median(i, requests))
				}
				s.rows = append(s.rows, []string{
					one.name, store, fmt.Sprint(goroutines), number(r.median(i, nanos)), number(r.ratio(i, plain, nanos)), redisCPU, sent, whole(r.median(i, allocs)),
				})
			}
		}
	}
	return s
}

func growthOfLines(t *testing.T, full bool) section {
	t.Helper()
	b := newBackend(t)
	g := growth{
		title: "Growth: queued calls", file: "growth-queued.svg", x: "queued calls", points: points(full, 1, 10, 100, 1_000, 10_000),
		text: `A call is queued for a permit, behind others of the same process, and leaves. Over Redis that is two requests.
The others ask again once in four seconds at least, which is in the figures.`,
	}
	memory, redis := both(t, b, full, g.points, func(n int, upstream string, store store.Store) []contender {
		p := newPacer(t, upstream, store, []policies.Policy{policies.InFlight(1).Lease(time.Hour)})
		_, err := p.Acquire(t.Context())
		require.NoError(t, err)
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
