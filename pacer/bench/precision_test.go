package bench_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A line-up is waiters that go one after the other, an interval apart, and line up again.
type lineUp struct {
	waiters  int
	interval time.Duration
	calls    int // how many go after each of the waiters has gone once
}

func (l lineUp) enough() int { return l.waiters + l.calls }

// each runs one in as many goroutines as there are waiters, until it returns that it has seen enough.
func (l lineUp) each(one func(ctx context.Context) (enough bool)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var done sync.WaitGroup
	for range l.waiters {
		done.Go(func() {
			for ctx.Err() == nil {
				if one(ctx) {
					cancel()
				}
			}
		})
	}
	done.Wait()
}

// samples collects figures from many goroutines.
type samples struct {
	mu  sync.Mutex
	all []float64
}

// add adds a figure, and reports whether there are enough.
func (g *samples) add(x float64, enough int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, x)
	return len(g.all) >= enough
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// bareTimers returns how late timers of the runtime fire, in µs.
func (l lineUp) bareTimers() []float64 {
	start := time.Now().Add(20 * time.Millisecond)
	var next atomic.Int64
	var late samples
	l.each(func(ctx context.Context) bool {
		slot := start.Add(time.Duration(next.Add(1)) * l.interval)
		timer := time.NewTimer(time.Until(slot))
		defer timer.Stop()
		select {
		case <-timer.C:
			return late.add(micros(time.Since(slot)), l.enough())
		case <-ctx.Done():
			return false
		}
	})
	return late.all
}

// newLatePacer returns a Pacer that adds no jitter.
func (l lineUp) newLatePacer(t *testing.T, upstream string, store store.Store) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{
		Upstream: upstream, Store: store, Policies: []policies.Policy{policies.Every(l.interval)},
		Jitter: pacer.NoJitter, MaxWait: pacer.Forever, StoreTimeout: 30 * time.Second,
	})
	require.NoError(t, err)
	return p
}

// inMemory returns how late after their slots calls go, in µs.
func (l lineUp) inMemory(t *testing.T) []float64 {
	t.Helper()
	p := l.newLatePacer(t, "precision", nil)
	defer p.Close()
	var late samples
	l.each(func(ctx context.Context) bool {
		r, err := p.Reserve(ctx)
		if err != nil {
			return false
		}
		now := time.Now()
		delay := r.Delay()
		if r.Wait(ctx) != nil || delay == 0 {
			return false
		}
		return late.add(micros(time.Since(now)-delay), l.enough())
	})
	return late.all
}

// slots is a store that remembers which slots it granted.
type slots struct {
	*redisstore.Store

	mu      sync.Mutex
	granted []float64 // µs of the server's clock
}

func (s *slots) note(grants []store.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range grants {
		if grants[i].OK {
			s.granted = append(s.granted, float64(grants[i].At))
		}
	}
}

// Reserve implements [store.Store].
func (s *slots) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	err := s.Store.Reserve(ctx, stack, calls, grants)
	if err == nil {
		s.note(grants)
	}
	return err
}

// ReserveAll implements [store.Shared].
func (s *slots) ReserveAll(ctx context.Context, batches []store.Batch) error {
	err := s.Store.ReserveAll(ctx, batches)
	if err == nil {
		for i := range batches {
			s.note(batches[i].Grants)
		}
	}
	return err
}

// overRedis returns how late after their slots calls go, in µs by the server's clock. The server is on this machine, so its clock is the
// machine's. Calls go in the order of their slots, except for neighbours that swap.
func (l lineUp) overRedis(t *testing.T, b *backend, upstream string) []float64 {
	t.Helper()
	store := &slots{Store: newRedisStore(t, b)}
	p := l.newLatePacer(t, upstream, store)
	defer p.Close()
	var went samples
	l.each(func(ctx context.Context) bool {
		if p.Wait(ctx) != nil {
			return false
		}
		return went.add(float64(time.Now().UnixMicro()), l.enough())
	})
	slices.Sort(went.all)
	store.mu.Lock()
	defer store.mu.Unlock()
	slices.Sort(store.granted)
	require.GreaterOrEqual(t, len(store.granted), len(went.all), "every call that went had a slot")
	late := make([]float64, len(went.all))
	for i := range late {
		late[i] = went.all[i] - store.granted[i]
	}
	return late
}

// measure gives each waiter its turns, and returns what the median round has of all that went, once in turn and once at first, when all
// came at once.
func (l lineUp) measure(rounds int, contenders []func(round int) []float64) (inTurn, atOnce []lateness) {
	turns, onces := make([][]lateness, len(contenders)), make([][]lateness, len(contenders))
	for round := range rounds {
		for turn := range contenders {
			i := (round + turn) % len(contenders)
			late := contenders[i](round)
			onces[i] = append(onces[i], newLateness(late[:l.waiters]))
			turns[i] = append(turns[i], newLateness(late[l.waiters:]))
		}
	}
	for i := range contenders {
		inTurn, atOnce = append(inTurn, typical(turns[i])), append(atOnce, typical(onces[i]))
	}
	return inTurn, atOnce
}

// lateness is how late calls are, in µs.
type lateness struct{ p50, p99 float64 }

func newLateness(late []float64) lateness { return lateness{quantile(late, 0.5), quantile(late, 0.99)} }

// typical is the median of rounds.
func typical(rounds []lateness) lateness {
	var p50, p99 []float64
	for _, l := range rounds {
		p50, p99 = append(p50, l.p50), append(p99, l.p99)
	}
	return lateness{median(p50), median(p99)}
}

// precisionSection measures how late after their slots calls go.
func precisionSection(t *testing.T, full bool) section {
	t.Helper()
	b := newBackend(t)
	lineUps := []lineUp{
		{waiters: 1, interval: 4 * time.Millisecond, calls: 250},
		{waiters: 64, interval: time.Millisecond, calls: 1_000},
		{waiters: 1_000, interval: time.Millisecond, calls: 1_000},
	}
	rounds := 4
	if !full {
		rounds = 2
		lineUps[2].waiters = 100
		for i := range lineUps {
			lineUps[i].calls = 10
		}
	}
	names := []string{"floor: a bare time.Timer", headway + " in memory", headway + " over Redis"}
	s := section{
		title: "Precision",
		text: fmt.Sprintf(`How late after its slot a call goes, in µs. Goroutines wait for a limit that is spent all the time: one call each 4 ms with one
of them, each 1 ms with more. The floor are timers of the runtime for the same instants. The slots over Redis are those of the
server's clock: what is late includes the way of the reply. Without jitter, which by default spreads calls that wait over up to
10 ms, as far as their limits allow. *At once*: the first call of each waiter, when all of them asked at the same moment. Medians of %d rounds.`, rounds),
		head: []string{"waiters", "who waits", "p50, µs", "p99, µs", "p50 more than the floor, µs", "p99 more than the floor, µs"},
	}
	c := chart{file: "precision.svg", title: "How late after its slot a call goes", y: "µs", logY: true, bars: true, width: 9, height: 4.5}
	for _, name := range names {
		c.series = append(c.series, series{name: name})
	}
	add := func(waiters string, all []lateness) {
		for i, l := range all {
			s.rows = append(s.rows, []string{
				waiters, names[i], number(l.p50), number(l.p99), number(l.p50 - all[0].p50), number(l.p99 - all[0].p99),
			})
			c.series[i].ys = append(c.series[i].ys, l.p50, l.p99)
		}
		c.labels = append(c.labels, "p50, "+waiters, "p99, "+waiters)
	}
	early := 0
	for _, l := range lineUps {
		inTurn, atOnce := l.measure(rounds, []func(int) []float64{
			func(int) []float64 { return l.bareTimers() },
			func(int) []float64 { return l.inMemory(t) },
			func(round int) []float64 {
				late := l.overRedis(t, b, fmt.Sprintf("precision-%d-%d", l.waiters, round))
				early += len(slices.DeleteFunc(slices.Clone(late), func(us float64) bool { return us >= 0 }))
				return late
			},
		})
		waiters := number(float64(l.waiters))
		add(waiters, inTurn)
		if l.waiters > 64 {
			add(waiters+", at once", atOnce)
		}
	}
	require.Zero(t, b.sent.failed.Load(), "requests failed")
	s.targets = []target{exactly("Calls over Redis that went before their slots", 0, float64(early))}
	s.charts = []chart{c}
	return s
}
