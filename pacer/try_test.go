package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

// refusedBy checks that a call may not go yet because of a policy, and returns when to try again.
func refusedBy(t *testing.T, policy string, err error) time.Duration {
	t.Helper()
	limit, ok := errors.AsType[*pacer.LimitError](err)
	require.True(t, ok, "%v", err)
	require.ErrorIs(t, err, pacer.ErrNotYet)
	require.ErrorIs(t, err, pacer.ErrRefused)
	require.Equal(t, policy, limit.Policy)
	require.Positive(t, retryAfter(limit))
	return retryAfter(limit)
}

// scopesIn returns the scopes among options.
func scopesIn(opts []pacer.TryOption) (scopes []pacer.ScopeOption) {
	for _, o := range opts {
		scopes = append(scopes, o.(pacer.ScopeOption))
	}
	return scopes
}

// TryAcquire lets go what may go now, and refuses the rest at once, whatever the policy: no time passes, nothing changes, and after
// RetryAfter the next call goes.
func TestTryAcquireNeverWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy policies.Policy
		opts   []pacer.TryOption
		binds  string
		goes   int
		retry  time.Duration
	}{
		"a rate":           {policy: policies.PerSecond(10).Burst(3), goes: 3, retry: 100 * ms},
		"a costly call":    {policy: policies.PerSecond(10).Burst(5), opts: []pacer.TryOption{pacer.Cost(2)}, goes: 2, retry: 100 * ms},
		"a fixed window":   {policy: policies.Fixed(3, 10*time.Second), goes: 3, retry: 10 * time.Second},
		"a sliding window": {policy: policies.Sliding(3, 10*time.Second), goes: 3, retry: 10*time.Second + 100*ms},
		"exact windows":    {policy: policies.AtMost(3, time.Second).Burst(3).Skew(0), goes: 3, retry: time.Second},
		"a day":            {policy: policies.Daily(3, time.UTC), goes: 3, retry: 24 * time.Hour},
		"a lane": {
			policy: policies.PerSecond(10).Burst(4).Lane("batch", 50), opts: []pacer.TryOption{pacer.Lane("batch")}, binds: "p.batch", goes: 4,
		},
		"beside a lane": {policy: policies.PerSecond(10).Burst(4).Lane("batch", 50), goes: 4, retry: 100 * ms},
		"fair shares": {
			policy: policies.PerSecond(10).Burst(3).Fair("tenant"), opts: []pacer.TryOption{pacer.Scope("tenant", "a")}, goes: 3, retry: 100 * ms,
		},
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
				before := fmt.Sprint(p.Status(pacer.With(t.Context(), scopesIn(c.opts)...)))
				for range 20 {
					_, err := p.TryAcquire(t.Context(), c.opts...)
					refusedBy(t, binds, err)
				}
				require.Equal(t, before, fmt.Sprint(p.Status(pacer.With(t.Context(), scopesIn(c.opts)...))), "a refusal charges and queues nothing")
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
		try := func(opts ...pacer.TryOption) error {
			_, err := p.TryAcquire(t.Context(), opts...)
			return err
		}
		var scope *pacer.LimitError
		require.ErrorAs(t, try(), &scope)
		require.ErrorIs(t, try(tenant, pacer.Cost(6)), pacer.TooCostly)
		require.NotErrorIs(t, try(tenant, pacer.Cost(6)), pacer.ErrNotYet)
		var config *pacer.ConfigError
		require.ErrorAs(t, try(tenant, pacer.Cost(0)), &config)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := p.TryAcquire(ended, tenant)
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
		closing(t, p)
		require.ErrorIs(t, try(tenant), pacer.ErrClosed)
	})
}

// A reservation knows how long until it goes. One that is queued does not know yet.
func TestAReservationKnowsWhenItGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1).Burst(1).Named("rate"), policies.InFlight(1).Per("tenant").Optional().Named("permits")))
		defer closing(t, p)
		start := time.Now()
		first, err := p.TryAcquire(t.Context(), pacer.Scope("tenant", "a"))
		require.NoError(t, err)
		require.Zero(t, first.Delay())
		second, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Second, second.Delay())
		require.False(t, second.Queued())
		time.Sleep(300 * ms)
		require.Equal(t, 700*ms, second.Delay())
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 3 * time.Second}))
		require.Equal(t, 700*ms, second.Delay(), "only Wait moves it")
		require.NoError(t, second.Wait(t.Context()))
		require.Equal(t, 3300*ms, time.Since(start))
		queued, err := p.Reserve(t.Context(), pacer.Scope("tenant", "a"), pacer.MaxWait(time.Hour), pacer.CostOf("rate", 0))
		require.NoError(t, err)
		require.True(t, queued.Queued())
		require.Positive(t, queued.Delay(), "until it asks again")
		first.Release()
		require.NoError(t, queued.Wait(t.Context()))
		require.False(t, queued.Queued())
		queued.Release()
	})
}
