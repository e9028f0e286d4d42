package pacer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// veiled is a store in memory that a Pacer does not take for one: each call goes the long way.
type veiled struct{ store.Store }

// The rule: a call that goes at once in memory is decided as any other is, whatever came before.
func TestTheShortWayIsTheLongWay(t *testing.T) {
	t.Parallel()
	newYork, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	for seed := range extent[uint64](20, 200) {
		synctest.Test(t, func(t *testing.T) {
			// Two days before the night in which the clocks go back.
			time.Sleep(time.Until(time.Date(2000, time.October, 27, 22, 0, 0, 0, newYork)))
			compareWays(t, rand.New(rand.NewPCG(seed, 1)), newYork)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func compareWays(t *testing.T, r *rand.Rand, loc *time.Location) {
	t.Helper()
	back := time.Duration(0)
	clock := memstore.WithClock(func() store.Instant { return store.Instant(time.Now().Add(-back).UnixMicro()) })
	some := []policies.Policy{
		policies.PerSecond(5).Burst(3).Named("shared"),
		policies.Hourly(20, loc).Named("hour"),
		policies.Daily(60, loc).Per("user").Named("day"),
		policies.Sliding(6, 4*time.Second).Per("tenant").Named("sliding"),
		policies.Fixed(9, 5*time.Second).Per("tenant").Optional().Named("fixed"),
		policies.PerSecond(2).Burst(2).Per("tenant", "user").Optional().Named("both"),
	}
	r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	c := limits(some[:1+r.IntN(4)]...)
	c.Store = memstore.New(clock)
	short := newPacer(t, c)
	c.Store = veiled{memstore.New(clock)}
	long := newPacer(t, c)
	for step := range 300 {
		switch r.IntN(30) {
		case 0:
			time.Sleep(time.Duration(r.Int64N(int64(20 * time.Hour))))
		case 1:
			back += time.Duration(r.IntN(1000)) * time.Microsecond
		default:
			time.Sleep(time.Duration(r.IntN(400)) * ms)
		}
		name := func() string { return []string{"", "a", "b", "c", "a"}[r.IntN(5)] } // "" is none
		ctx := pacer.With(pacer.With(t.Context(), pacer.Scope("tenant", name())), pacer.Scope("user", name()))
		opts, reported := []pacer.Option{pacer.MaxWait(0)}, []pacer.ScopeOption(nil)
		if r.IntN(3) == 0 {
			opts = append(opts, pacer.Cost(1+r.Int64N(4)*r.Int64N(4)))
		}
		if r.IntN(10) == 0 {
			opts, reported = append(opts, pacer.Scope("user", "")), append(reported, pacer.Scope("user", ""))
		}
		if r.IntN(10) == 0 {
			opts = append(opts, pacer.Tracked())
		}
		if r.IntN(20) == 0 {
			f := policies.Feedback{Wait: time.Duration(r.IntN(3000)) * ms}
			if r.IntN(2) == 0 {
				f = policies.Feedback{Remaining: policies.Reported(r.Int64N(20)), Policies: []string{some[0].Name()}}
			}
			require.Equal(t, long.Report(ctx, f, reported...), short.Report(ctx, f, reported...))
		}
		require.Equal(t, long.Wait(ctx, opts...), short.Wait(ctx, opts...), "step %d", step)
		one, err := long.Status(ctx)
		two, err2 := short.Status(ctx)
		require.Equal(t, err, err2)
		require.Equal(t, one, two, "step %d", step)
	}
}

// ledger counts what was granted, and does not know how.
type ledger struct {
	mu    sync.Mutex
	spent map[string]int64
}

func (l *ledger) add(n int64, keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		l.spent[k] += n
	}
}

// The rule: a stack is decided as a whole. Concurrent decisions exceed no limit and charge no refused call. No room remains for which a
// call was refused.
func TestAStackIsDecidedAsAWhole(t *testing.T) {
	t.Parallel()
	const all, each, both, workers, tries = 3000, 120, 15, 16, 1500
	now := store.Instant(time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	c := limits(
		policies.Daily(all, time.UTC).Named("all"),
		policies.Fixed(each, time.Hour).Per("tenant").Named("tenant"),
		policies.Every(time.Hour).Burst(both).Per("tenant", "user").Named("both"),
	)
	c.Store = memstore.New(memstore.WithClock(func() store.Instant { return now }))
	c.MaxLate = time.Hour // a busy machine lets a slot pass before its caller comes for it
	book := ledger{spent: make(map[string]int64)}
	var wg sync.WaitGroup
	for w := range workers {
		p := newPacer(t, c) // of several processes, so to speak
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 2))
			for range tries {
				tenant, user, n := fmt.Sprint(r.IntN(40)), fmt.Sprint(r.IntN(12)), 1+r.Int64N(3)
				ctx := pacer.With(pacer.With(t.Context(), pacer.Scope("tenant", tenant)), pacer.Scope("user", user))
				switch r.IntN(4) {
				case 0: // the long way, and back
					if s, err := p.Reserve(ctx, pacer.Cost(n), pacer.MaxWait(0)); err == nil {
						assert.NoError(t, s.NotUsed(ctx))
					}
				case 1:
					if s, err := p.Reserve(ctx, pacer.Cost(n), pacer.MaxWait(0)); err == nil {
						assert.NoError(t, s.Wait(ctx))
						book.add(n, "", tenant, tenant+"/"+user)
					}
				default:
					if p.Wait(ctx, pacer.Cost(n), pacer.MaxWait(0)) == nil {
						book.add(n, "", tenant, tenant+"/"+user)
					}
				}
			}
		})
	}
	wg.Wait()
	p := newPacer(t, c)
	for tenant := range 40 {
		for user := range 12 {
			tenant, user := fmt.Sprint(tenant), fmt.Sprint(user)
			s, err := p.Status(t.Context(), pacer.Scope("tenant", tenant), pacer.Scope("user", user))
			require.NoError(t, err)
			require.Equal(t, int64(all), s.Policies[0].Remaining+book.spent[""])
			require.Equal(t, int64(each), s.Policies[1].Remaining+book.spent[tenant])
			require.Equal(t, int64(both), s.Policies[2].Remaining+book.spent[tenant+"/"+user])
		}
	}
	require.Greater(t, book.spent[""], int64(all/2), "the test is about limits that are reached")
}

// An account that was evicted is not used again by who knew it: two accounts of one key would let twice as much go.
func TestAnEvictedAccountIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		c := limits(policies.PerSecond(1))
		c.Store = store
		first, second := newPacer(t, c), newPacer(t, c)
		busy := limits(ample())
		busy.Store, busy.Upstream = store, "another"
		for range 3 {
			for range 3 { // it knows its account, by now
				require.NoError(t, first.Wait(t.Context(), pacer.MaxWait(0)))
				time.Sleep(time.Second)
			}
			others := newPacer(t, busy)
			require.NoError(t, others.Wait(t.Context()))
			for range 2000 {
				time.Sleep(ms)
				require.NoError(t, others.Wait(t.Context()))
			}
			require.Equal(t, 1, store.Len(), "an idle key goes while others are used, all of which is short ways")
			require.NoError(t, second.Wait(t.Context(), pacer.MaxWait(0)))
			require.ErrorIs(t, first.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
			time.Sleep(time.Second)
			require.NoError(t, first.Wait(t.Context(), pacer.MaxWait(0)))
			require.ErrorIs(t, second.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
			time.Sleep(time.Second)
		}
	})
}

// Two Pacers may differ about the numbers of a policy. Each uses its own.
func TestTwoSpecsOfOneAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		wide, narrow := limits(policies.Fixed(5, time.Hour).Named("x")), limits(policies.Fixed(2, time.Hour).Named("x"))
		wide.Store, narrow.Store = store, store
		w, n := newPacer(t, wide), newPacer(t, narrow)
		require.NoError(t, n.Wait(t.Context(), pacer.MaxWait(0)))
		require.NoError(t, w.Wait(t.Context(), pacer.MaxWait(0)))
		require.ErrorIs(t, n.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
		for range 3 {
			require.NoError(t, w.Wait(t.Context(), pacer.MaxWait(0)))
		}
		require.ErrorIs(t, w.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
	})
}

// A calendar's windows change under calls that go at once.
func TestCallsThatGoAtOnceSeeTheNextDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it begins at midnight
		p := newPacer(t, limits(policies.Daily(2, time.UTC).Per("tenant")))
		time.Sleep(24*time.Hour - time.Second)
		for range 5 {
			for _, tenant := range []string{"a", "b"} {
				require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", tenant), pacer.MaxWait(0)))
				require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", tenant), pacer.MaxWait(0)))
				require.ErrorIs(t, p.Wait(t.Context(), pacer.Scope("tenant", tenant), pacer.MaxWait(0)), pacer.ErrNotYet)
			}
			time.Sleep(24 * time.Hour)
		}
	})
}

// A whole upstream that is paused lets nothing go, and others of the same store go on.
func TestAPauseHoldsCallsThatWouldGoAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		paused, other := limits(ample()), limits(ample())
		paused.Store, other.Store, other.Upstream = store, store, "other"
		p, o := newPacer(t, paused), newPacer(t, other)
		require.NoError(t, p.Wait(t.Context()))
		require.NoError(t, o.Wait(t.Context()))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 10 * time.Second}))
		require.NoError(t, o.Report(t.Context(), policies.Feedback{Wait: time.Second}))
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
		require.ErrorIs(t, o.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
		time.Sleep(time.Second)
		require.NoError(t, o.Wait(t.Context(), pacer.MaxWait(0)))
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
		require.NoError(t, fleet.Of(p).Resume(t.Context()))
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
	})
}

// A call that is not plain is refused on the fast path as on the slow one.
func TestCallsThatCannotGoAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1).Burst(3).Named("rate"), policies.Fixed(99, time.Hour), policies.Fixed(3, time.Minute)))
		require.NoError(t, p.Wait(t.Context()))
		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Wait(done), context.Canceled)
		require.ErrorIs(t, p.Wait(done, pacer.MaxWait(0)), context.Canceled)
		require.ErrorIs(t, p.Wait(t.Context(), pacer.Cost(4)), pacer.TooCostly)
		var ce *pacer.ConfigError
		require.ErrorAs(t, p.Wait(t.Context(), pacer.Cost(0)), &ce)
		require.Equal(t, "Cost", ce.Field)
		require.ErrorIs(t, p.Wait(t.Context(), pacer.NotBefore(time.Second), pacer.MaxWait(0)), pacer.ErrNotYet)
		require.NoError(t, p.Wait(t.Context(), pacer.Cost(2)), "nothing else was charged")
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
		time.Sleep(time.Minute)
		require.NoError(t, p.Wait(t.Context(), pacer.Cost(3)))
		require.ErrorIs(t, p.Wait(t.Context(), pacer.CostOf("rate", 0), pacer.MaxWait(0)), pacer.ErrNotYet)
		require.NoError(t, p.Wait(t.Context(), pacer.CostOf("rate", 0), pacer.CostOf("fixed-1m", 0), pacer.MaxWait(0)), "it costs nothing there")
		require.NoError(t, p.Close())
		require.ErrorIs(t, p.Wait(t.Context()), pacer.ErrClosed)
	})
}
