package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/pacer/storetest"
	"github.com/headway-go/headway/policies"
)

// refusedBy checks that a call may not go yet because of a policy, and returns when to ask again.
func refusedBy(t *testing.T, policy string, err error) time.Duration {
	t.Helper()
	limit, ok := errors.AsType[*pacer.LimitError](err)
	require.True(t, ok, "%v", err)
	require.ErrorIs(t, err, pacer.ErrNotYet)
	require.ErrorIs(t, err, pacer.ErrRefused)
	require.Equal(t, policy, limit.Policy)
	require.Positive(t, limit.RetryAfter())
	return limit.RetryAfter()
}

// TryAcquire lets go what may go now, and refuses the rest at once, whatever the policy: no time passes, nothing changes, and after
// RetryAfter the next call goes.
func TestTryAcquireNeverWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy policies.Policy
		opts   []pacer.Option
		binds  string
		goes   int
		retry  time.Duration
	}{
		"a rate":           {policy: policies.PerSecond(10).Burst(3), goes: 3, retry: 100 * ms},
		"a costly call":    {policy: policies.PerSecond(10).Burst(5), opts: []pacer.Option{pacer.Cost(2)}, goes: 2, retry: 100 * ms},
		"a fixed window":   {policy: policies.Fixed(3, 10*time.Second), goes: 3, retry: 10 * time.Second},
		"a sliding window": {policy: policies.Sliding(3, 10*time.Second), goes: 3, retry: 10*time.Second + 100*ms},
		"exact windows":    {policy: policies.AtMost(3, time.Second).Burst(3).Skew(0), goes: 3, retry: time.Second},
		"a day":            {policy: policies.Daily(3, time.UTC), goes: 3, retry: 24 * time.Hour},
		"a lane": {
			policy: policies.PerSecond(10).Burst(4).Lane("batch", 50), opts: []pacer.Option{pacer.Lane("batch")}, binds: "p.batch", goes: 4,
		},
		"beside a lane": {policy: policies.PerSecond(10).Burst(4).Lane("batch", 50), goes: 4, retry: 100 * ms},
		"fair shares": {
			policy: policies.PerSecond(10).Burst(3).Fair("tenant"), opts: []pacer.Option{pacer.Scope("tenant", "a")}, goes: 3, retry: 100 * ms,
		},
		"MaxWait is unused": {policy: policies.PerSecond(10), opts: []pacer.Option{pacer.MaxWait(time.Hour)}, goes: 1, retry: 100 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, limits(c.policy.Named("p")))
				defer closing(t, p)
				binds := c.binds
				if binds == "" {
					binds = "p"
				}
				start := time.Now()
				goes := 0
				var refused error
				for refused == nil {
					var r *pacer.Reservation
					if r, refused = p.TryAcquire(t.Context(), c.opts...); refused == nil {
						goes++
						require.ErrorIs(t, r.Wait(t.Context()), pacer.ErrSpent, "it goes already")
						require.NoError(t, r.Cancel(t.Context()))
						require.NoError(t, r.NotUsed(t.Context()), "it is used")
						r.Release()
						r.Release()
					}
					require.LessOrEqual(t, goes, 100)
				}
				require.Zero(t, time.Since(start))
				if c.binds == "" { // what a lane gets at once depends on what is lent to it
					require.Equal(t, c.goes, goes)
				}
				retry := refusedBy(t, binds, refused)
				if c.retry > 0 {
					require.Equal(t, c.retry, retry)
				}
				before := fmt.Sprint(p.Status(t.Context(), c.opts...))
				for range 20 {
					_, err := p.TryAcquire(t.Context(), c.opts...)
					refusedBy(t, binds, err)
				}
				require.Equal(t, before, fmt.Sprint(p.Status(t.Context(), c.opts...)), "a refusal charges and queues nothing")
				require.Zero(t, time.Since(start))
				if c.binds != "" { // by then it would have its slot if it waited, and the second attempt starts
					time.Sleep(retry)
					_, err := p.TryAcquire(t.Context(), c.opts...)
					retry = refusedBy(t, binds, err)
				}
				time.Sleep(retry - time.Microsecond)
				_, err := p.TryAcquire(t.Context(), c.opts...)
				refusedBy(t, binds, err)
				time.Sleep(time.Microsecond)
				_, err = p.TryAcquire(t.Context(), c.opts...)
				require.NoError(t, err)
			})
		})
	}
}

// A permit is taken until it is released, and a call that any policy refuses takes nothing of the others.
func TestTryAcquireTakesPermits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.InFlight(2).Named("permits"), policies.PerSecond(1).Burst(4).Named("rate")))
		defer closing(t, p)
		free := func(permits, rate int64) {
			t.Helper()
			require.Equal(t, permits, statusOf(t, p, "permits").Remaining)
			require.Equal(t, rate, statusOf(t, p, "rate").Remaining)
		}
		one, err := p.TryAcquire(t.Context())
		require.NoError(t, err)
		two, err := p.TryAcquire(t.Context())
		require.NoError(t, err)
		free(0, 2)
		_, err = p.TryAcquire(t.Context())
		require.Equal(t, 100*ms, refusedBy(t, "permits", err), "nobody knows when a permit comes back")
		require.ErrorContains(t, err, "all of its 2 permits are taken")
		free(0, 2)
		require.Zero(t, statusOf(t, p, "permits").Queued)
		one.Release()
		free(1, 2)
		three, err := p.TryAcquire(t.Context())
		require.NoError(t, err)
		two.Release()
		three.Release()
		four, err := p.TryAcquire(t.Context())
		require.NoError(t, err)
		four.Release()
		free(2, 0)
		_, err = p.TryAcquire(t.Context())
		require.Equal(t, time.Second, refusedBy(t, "rate", err))
		free(2, 0)
		time.Sleep(time.Hour) // no lease is left that could be renewed
		five, err := p.TryAcquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute) // its lease is renewed
		free(1, 4)
		five.Release()
		free(2, 4)
	})
}

// A call that would rather not wait does not overtake those that do.
func TestTryAcquireStaysBehindTheQueue(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]policies.Policy{
		"permits": policies.InFlight(1).Named("p"), "fair permits": policies.InFlight(1).Fair("tenant").Named("p"),
		"a rate": policies.Every(time.Second).Named("p"), "fair shares": policies.Every(time.Second).Fair("tenant").Named("p"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, limits(policy))
				defer closing(t, p)
				tenant := pacer.Scope("tenant", "a")
				first, err := p.TryAcquire(t.Context(), tenant)
				require.NoError(t, err)
				var wg sync.WaitGroup
				var waiting atomic.Int64
				for range 5 {
					waiting.Add(1)
					wg.Go(func() {
						r, err := p.Acquire(t.Context(), pacer.MaxWait(time.Minute), tenant)
						require.NoError(t, err)
						waiting.Add(-1)
						time.Sleep(500 * ms)
						r.Release()
					})
				}
				time.Sleep(500 * ms)
				first.Release()
				for waiting.Load() > 0 {
					_, err := p.TryAcquire(t.Context(), tenant)
					refusedBy(t, "p", err)
					time.Sleep(time.Millisecond)
				}
				wg.Wait()
				time.Sleep(time.Second)
				_, err = p.TryAcquire(t.Context(), tenant)
				require.NoError(t, err)
			})
		})
	}
}

func TestTryAcquireRefusesWhatWaitRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, d := observedPacer(t, policies.PerSecond(10).Burst(5).Per("tenant").Named("rate"), policies.InFlight(9).Named("permits"))
		tenant := pacer.Scope("tenant", "a")
		try := func(opts ...pacer.Option) error {
			_, err := p.TryAcquire(t.Context(), opts...)
			return err
		}
		var scope *pacer.ScopeError
		require.ErrorAs(t, try(), &scope)
		require.ErrorIs(t, try(tenant, pacer.Cost(6)), pacer.ErrNever)
		require.NotErrorIs(t, try(tenant, pacer.Cost(6)), pacer.ErrNotYet)
		var config *pacer.ConfigError
		require.ErrorAs(t, try(tenant, pacer.Cost(0)), &config)
		_, err := p.AllowAtMost(t.Context(), 0, tenant)
		require.EqualError(t, err, "pacer: AllowAtMost is 0: must be at least 1")
		require.Equal(t, time.Second, refusedBy(t, "", try(tenant, pacer.NotBefore(time.Second))))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = p.TryAcquire(ended, tenant)
		require.ErrorIs(t, err, context.Canceled)
		_, err = p.AllowAtMost(ended, 1, tenant)
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		d.read()
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Minute}))
		require.Equal(t, time.Minute, refusedBy(t, "", try(tenant)))
		require.NoError(t, fleet.Of(p).Resume(t.Context()))
		require.NoError(t, try(tenant, pacer.Cost(2)))
		synctest.Wait()
		require.Equal(t, []string{
			"paused for 1m0s", "heeded answer of for 1m0s: 0", "refused by , 1m0s: *pacer.LimitError", "resumed", "goes (2) after 0s",
		}, d.read())
		broken := newPacer(t, pacer.Config{Store: failing{errBroken}})
		var failed *pacer.StoreError
		_, err = broken.TryAcquire(t.Context())
		require.ErrorAs(t, err, &failed)
		_, err = broken.AllowAtMost(t.Context(), 3)
		require.ErrorAs(t, err, &failed)
		closing(t, p)
		require.ErrorIs(t, try(tenant), pacer.ErrClosed)
		_, err = p.AllowAtMost(t.Context(), 1, tenant)
		require.ErrorIs(t, err, pacer.ErrClosed)
	})
}

// A reservation says at which instant it goes: what Delay counts down to. One that is queued does not know yet.
func TestAReservationKnowsWhenItGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1).Burst(1).Named("rate"), policies.InFlight(1).Per("tenant").Optional().Named("permits")))
		defer closing(t, p)
		start := time.Now()
		first, err := p.TryAcquire(t.Context(), pacer.Scope("tenant", "a"))
		require.NoError(t, err)
		require.Equal(t, start, first.At())
		second, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.Equal(t, start.Add(time.Second), second.At())
		time.Sleep(300 * ms)
		require.Equal(t, start.Add(time.Second), second.At())
		require.Equal(t, time.Until(second.At()), second.Delay())
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 3 * time.Second}))
		require.Equal(t, start.Add(time.Second), second.At(), "only Wait moves it")
		require.NoError(t, second.Wait(t.Context()))
		require.Equal(t, time.Now(), second.At())
		require.Equal(t, start.Add(3300*ms), second.At())
		queued, err := p.Reserve(t.Context(), pacer.Scope("tenant", "a"), pacer.MaxWait(time.Hour), pacer.CostOf("rate", 0))
		require.NoError(t, err)
		require.True(t, queued.At().IsZero())
		require.Positive(t, queued.Delay(), "until it asks again")
		first.Release()
		require.NoError(t, queued.Wait(t.Context()))
		require.Equal(t, time.Now(), queued.At())
		queued.Release()
	})
}

// atOnce is how many calls Allow lets go at once, up to n.
func atOnce(t *testing.T, p *pacer.Pacer, n int64, opts ...pacer.Option) (goes int64) {
	t.Helper()
	for goes < n && p.Allow(t.Context(), opts...) == nil {
		goes++
	}
	return goes
}

// AllowAtMost charges as much as that many calls of Allow would that go at once, whatever came before. Of more than a few hundred it may
// leave some, if what is free lies in pieces, but what it grants it charges, and it never grants more.
func TestAllowAtMostIsAllowManyTimes(t *testing.T) {
	t.Parallel()
	for seed := range extent[uint64](30, 300) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 9))
			scale := int64(1)
			if seed%3 == 0 {
				scale = 300 // so many are asked for in portions
			}
			some := []policies.Policy{
				policies.PerSecond(7 * scale).Burst(5 * scale).Named("rate"),
				policies.Fixed(9*scale, 5*time.Second).Named("fixed"),
				policies.Sliding(8*scale, 4*time.Second).Named("sliding"),
				policies.AtMost(12, time.Second).Burst(6).Named("exact"),
				policies.PerSecond(10 * scale).Burst(8 * scale).Adaptive(policies.Adaptation{}).Named("adapting"),
			}
			rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			c := limits(some[:1+rng.IntN(3)]...)
			c.Store = memstore.New(memstore.WithClock(func() store.Instant { return store.Instant(time.Now().UnixMicro()) }))
			many := newPacer(t, c)
			c.Store = memstore.New(memstore.WithClock(func() store.Instant { return store.Instant(time.Now().UnixMicro()) }))
			single := newPacer(t, c)
			both := func(do func(p *pacer.Pacer)) { do(many); do(single) }
			var kept [2]*pacer.Reservation
			pieces := false // what is free lies between reservations
			for step := range 60 {
				n := 1 + rng.Int64N(6*scale)
				var opts []pacer.Option
				if rng.IntN(4) == 0 {
					opts = append(opts, pacer.Cost(1+rng.Int64N(3)))
				}
				switch from := time.Duration(rng.IntN(1500)) * ms; rng.IntN(9) {
				case 0:
					for i, p := range []*pacer.Pacer{many, single} {
						pieces = pieces || scale > 1
						kept[i], _ = p.Reserve(t.Context(), pacer.NotBefore(from), pacer.MaxWait(time.Minute))
					}
				case 1:
					for i := range kept {
						if kept[i] != nil {
							require.NoError(t, kept[i].NotUsed(t.Context()))
						}
					}
				case 2:
					both(func(p *pacer.Pacer) {
						require.NoError(t, p.Report(t.Context(), policies.Feedback{Remaining: policies.Reported(n), Reset: from, Policies: []string{some[0].Name()}}))
					})
				case 3:
					both(func(p *pacer.Pacer) { require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: from / 4})) })
				case 4, 5:
					time.Sleep(from / 2)
				default:
					got, err := many.AllowAtMost(t.Context(), n, opts...)
					if err != nil {
						require.Zero(t, got)
						require.ErrorIs(t, err, pacer.ErrNotYet)
						if !pieces {
							require.Equal(t, single.Allow(t.Context(), opts...), err, "seed %d, step %d", seed, step)
						}
						continue
					}
					require.LessOrEqual(t, got, n)
					require.Positive(t, got)
					if want := atOnce(t, single, n, opts...); !pieces {
						require.Equal(t, want, got, "seed %d, step %d: %d of %v", seed, step, n, many.Policies())
					}
				}
				a, err := many.Status(t.Context())
				require.NoError(t, err)
				b, err := single.Status(t.Context())
				require.NoError(t, err)
				if !pieces {
					require.Equal(t, fmt.Sprint(b), fmt.Sprint(a), "seed %d, step %d", seed, step)
				}
			}
			both(func(p *pacer.Pacer) { closing(t, p) })
		})
	}
}

// An upstream that allows less than the limit allows no more because many are asked for at once.
func TestAllowAtMostHeedsALowerLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, policy := range []policies.Policy{policies.Fixed(10_000, time.Hour).Named("p"), policies.Sliding(10_000, time.Hour).Named("p")} {
			p := newPacer(t, limits(policy))
			require.NoError(t, p.Report(t.Context(), policies.Feedback{Remaining: policies.Reported(3), Reset: 30 * time.Minute, Policies: []string{"p"}}))
			granted, err := p.AllowAtMost(t.Context(), 10_000)
			require.NoError(t, err)
			require.Equal(t, int64(3), granted)
			_, err = p.AllowAtMost(t.Context(), 10_000)
			refusedBy(t, "p", err)
			closing(t, p)
		}
	})
}

// A call has one permit, whatever it costs: there may be more units than permits.
func TestAllowAtMostOfPermits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.InFlight(2).Named("flights")))
		granted, err := p.AllowAtMost(t.Context(), 4, pacer.Cost(3))
		require.NoError(t, err)
		require.Equal(t, int64(2), granted)
		_, err = p.AllowAtMost(t.Context(), 4, pacer.Cost(3))
		refusedBy(t, "flights", err)
	})
}

// Lanes and fair shares count what is taken at once, as any calls.
func TestAllowAtMostOfQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rate := policies.PerSecond(10)
		p, d := observedPacer(t, rate.Burst(8).Lane("batch", 50).Named("lanes"), rate.Burst(6).Fair("tenant").Named("fair"))
		tenant := pacer.Scope("tenant", "a")
		granted, err := p.AllowAtMost(t.Context(), 100, tenant)
		require.NoError(t, err)
		require.Equal(t, int64(6), granted)
		require.Zero(t, statusOf(t, p, "fair", tenant).Remaining)
		require.Equal(t, int64(2), statusOf(t, p, "lanes", tenant).Remaining)
		synctest.Wait()
		require.Equal(t, []string{"goes (6) after 0s"}, d.read(), "one event")
		_, err = p.AllowAtMost(t.Context(), 100, tenant)
		refusedBy(t, "fair", err)
		require.Zero(t, statusOf(t, p, "fair", tenant).Queued)
		time.Sleep(time.Minute)
		granted, err = p.AllowAtMost(t.Context(), 100, tenant, pacer.Lane("batch"))
		require.NoError(t, err)
		require.Equal(t, int64(4), granted, "the lane's burst")
		require.Zero(t, statusOf(t, p, "lanes.batch", tenant, pacer.Lane("batch")).Remaining)
		_, err = p.AllowAtMost(t.Context(), 1, pacer.Lane("batch"))
		var scope *pacer.ScopeError
		require.ErrorAs(t, err, &scope)
	})
}

// What was charged for a caller who has gone is given back.
func TestAllowAtMostGivesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(1)
		p := away(t, r, pacer.RefuseCalls, policies.Fixed(100, time.Hour).Named("p"))
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		r.set(nil, 50*ms)
		ctx, cancel := context.WithTimeout(t.Context(), 20*ms)
		defer cancel()
		granted, err := p.AllowAtMost(ctx, 60)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, granted)
		_, err = p.TryAcquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		r.set(nil, 0)
		require.Equal(t, int64(99), statusOf(t, p, "p").Remaining)
	})
}

// What callers take side by side is never more than there is, and all of it.
func TestAllowAtMostSideBySide(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{500, 50_000} {
		c := limits(policies.Every(24 * time.Hour / time.Duration(limit)).Burst(limit))
		c.Store = memstore.New(memstore.WithClock(func() store.Instant { return storetest.Epoch }))
		p := newPacer(t, c)
		var taken atomic.Int64
		var wg sync.WaitGroup
		for i := range int64(8) {
			wg.Go(func() {
				for {
					n, err := p.AllowAtMost(t.Context(), (i+1)*limit/60+1)
					if err != nil {
						require.ErrorIs(t, err, pacer.ErrNotYet)
						return
					}
					taken.Add(n)
				}
			})
		}
		wg.Wait()
		require.Equal(t, limit, taken.Load())
		closing(t, p)
	}
}

// Without the store, what is taken at once is no more than the share of this process.
func TestAllowAtMostWithoutTheStore(t *testing.T) {
	t.Parallel()
	for _, policy := range []policies.Policy{
		policies.Fixed(3000, 24*time.Hour).Named("p"), policies.Sliding(3000, 24*time.Hour).Named("p"), policies.Every(time.Minute).Burst(3000).Named("p"),
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRemote(3)
			p := away(t, r, pacer.PaceLocally, policy)
			defer closing(t, p)
			require.NoError(t, p.Wait(t.Context()))
			r.set(errBroken, 0)
			granted, err := p.AllowAtMost(t.Context(), 10_000)
			require.NoError(t, err)
			require.InDelta(t, 1000, granted, 1, "a third, but for the one that went")
			_, err = p.AllowAtMost(t.Context(), 10_000)
			refusedBy(t, "p", err)
			_, err = p.TryAcquire(t.Context())
			refusedBy(t, "p", err)
		})
	}
}
