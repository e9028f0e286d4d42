package pacer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// statusOf returns how things stand for a policy.
func statusOf(t testing.TB, p *pacer.Pacer, policy string, opts ...pacer.ScopeOption) pacer.PolicyStatus {
	t.Helper()
	s, err := p.Status(t.Context(), opts...)
	require.NoError(t, err)
	i := slices.IndexFunc(s.Policies, func(one pacer.PolicyStatus) bool { return one.Policy.Name() == policy })
	require.GreaterOrEqual(t, i, 0)
	return s.Policies[i]
}

// Permits that are never released are not renewed: they return when their leases run out.
func TestWaitHoldsAPermitForALease(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, config func(...policies.Policy) pacer.Config) {
		t.Helper()
		p := opened(t, config(policies.InFlight(5).Lease(9*time.Second).Per("tenant").Optional(), policies.PerSecond(1000).Burst(1000)))
		tenant := pacer.Scope("tenant", "a")
		began := time.Now()
		require.NoError(t, p.Wait(t.Context(), tenant, pacer.Cost(2), pacer.MaxWait(0)))
		for range 4 {
			require.NoError(t, p.Wait(t.Context(), tenant))
		}
		require.ErrorIs(t, p.Wait(t.Context(), tenant, pacer.MaxWait(0)), pacer.ErrNotYet)
		for range 600 {
			require.NoError(t, p.Wait(t.Context()), "no permits for other calls")
		}
		for range 6 {
			require.NoError(t, p.Wait(t.Context(), tenant))
		}
		require.GreaterOrEqual(t, time.Since(began), 2*9*time.Second)
		require.Less(t, time.Since(began), 2*12*time.Second)
	})
}

// A permit comes back when it is released, once, and goes to who waited longest.
func TestReleaseLetsTheNextOneIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.InFlight(2), policies.PerSecond(1).Burst(2).Named("rate")))
		first, err := p.Acquire(t.Context())
		require.NoError(t, err)
		_, err = p.Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		var order []int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				r, err := p.Acquire(t.Context(), pacer.MaxWait(time.Hour))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(10 * time.Second)
				r.Release()
				r.Release()
			})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		went := func() []int {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(order)
		}
		require.Empty(t, went())
		require.Equal(t, int64(3), statusOf(t, p, "in-flight").Queued)
		require.Equal(t, int64(2), statusOf(t, p, "rate").Remaining, "who is queued has no slot")
		began := time.Now()
		first.Release()
		first.Release()
		synctest.Wait()
		require.Equal(t, []int{0}, went())
		require.Equal(t, began, time.Now(), "at once")
		all.Wait()
		require.Equal(t, []int{0, 1, 2}, went())
		require.Equal(t, 30*time.Second, time.Since(began))
		require.Equal(t, int64(1), statusOf(t, p, "in-flight").Remaining)
	})
}

// A wait for a permit ends with the caller's patience, and the error names the limit.
func TestAWaitForAPlaceIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.InFlight(1).Named("calls")))
		held, err := p.Acquire(t.Context())
		require.NoError(t, err)
		began := time.Now()
		var limit *pacer.LimitError
		_, err = p.Acquire(t.Context(), pacer.MaxWait(7*time.Second))
		require.ErrorAs(t, err, &limit)
		require.Equal(t, 7*time.Second, time.Since(began))
		require.ErrorIs(t, err, pacer.ErrNotYet)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, pacer.Queued, limit.Reason)
		require.ErrorIs(t, limit, pacer.NoPermit)
		require.EqualError(t, err, `pacer: upstream "test": policy "calls": its only permit is taken, `+
			`with no queued call before this one, for longer than the longest wait allowed (7s): try again later, or raise MaxWait`)

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = p.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorAs(t, err, &limit)
		require.ErrorIs(t, limit, context.DeadlineExceeded)

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = p.Acquire(ctx)
		require.ErrorIs(t, err, context.Canceled)

		_, err = p.Reserve(t.Context(), pacer.MaxWait(0))
		require.ErrorAs(t, err, &limit)
		require.Equal(t, pacer.NoPermit, limit.Reason)

		require.Equal(t, int64(0), statusOf(t, p, "calls").Queued, "nobody is left in the queue")
		held.Release()
		require.Equal(t, int64(1), statusOf(t, p, "calls").Remaining)
	})
}

// A tenant whose own rate makes it wait holds no permit meanwhile: others go.
func TestWhoWaitsForASlotHoldsNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.InFlight(1), policies.Every(10*time.Second).Burst(2).Per("tenant")))
		begun := make(map[string][]time.Duration)
		start := time.Now()
		var mu sync.Mutex
		var all sync.WaitGroup
		call := func(tenant string, takes time.Duration) {
			all.Go(func() {
				r, err := p.Acquire(t.Context(), pacer.Scope("tenant", tenant))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				begun[tenant] = append(begun[tenant], time.Since(start).Truncate(time.Millisecond))
				mu.Unlock()
				time.Sleep(takes)
				r.Release()
			})
			synctest.Wait()
		}
		for range 4 {
			call("greedy", 0)
		}
		time.Sleep(time.Second)
		call("light", 11*time.Second) // while it runs, the slot of the greedy one comes
		all.Wait()
		require.Equal(t, []time.Duration{time.Second}, begun["light"])
		want := []time.Duration{0, 0, 12 * time.Second, 20 * time.Second} // the third gave its slot up, and went when there was a permit
		require.Equal(t, want, begun["greedy"])
	})
}

// Closing wakes who waits for a permit, and keeps nothing alive.
func TestCloseAndPermits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		c := pacer.Config{Upstream: "test", Store: store, Policies: []policies.Policy{policies.InFlight(1).Lease(5 * time.Second)}}
		p, err := pacer.New(c)
		require.NoError(t, err)
		held, err := p.Acquire(t.Context())
		require.NoError(t, err)
		waits := make(chan error)
		go func() {
			_, err := p.Acquire(t.Context())
			waits <- err
		}()
		synctest.Wait()
		require.NoError(t, p.Close())
		require.ErrorIs(t, <-waits, pacer.ErrClosed)
		other, err := pacer.New(c)
		require.NoError(t, err)
		defer func() { _ = other.Close() }()
		require.Equal(t, int64(0), statusOf(t, other, "in-flight").Remaining)
		require.Equal(t, int64(0), statusOf(t, other, "in-flight").Queued)
		held.Release() // it still reaches the store
		require.Equal(t, int64(1), statusOf(t, other, "in-flight").Remaining)
	})
}

// A lane that nobody knows is a mistake, not a way to everything.
func TestLanesAreChecked(t *testing.T) {
	t.Parallel()
	p := newPacer(t, limits(policies.PerSecond(10).Burst(2).Lane("batch", 50).Lane("urgent", 100).Named("rate")))
	require.NoError(t, p.Wait(t.Context(), pacer.Lane("urgent")))
	require.NoError(t, p.Wait(t.Context()))
	require.Equal(t, int64(1), statusOf(t, p, "rate.batch", pacer.Lane("batch")).Remaining, "calls of no lane are not charged to one")
	err := p.Wait(t.Context(), pacer.Lane("btach"))
	require.EqualError(t, err, `pacer: Lane is "btach": no policy of upstream "test" has that lane, but batch, urgent: give a policy one with Lane; 100 per cent will do`)
	require.NoError(t, newPacer(t, limits(policies.PerSecond(10))).Wait(t.Context(), pacer.Lane("whatever")), "where there are no lanes, there is nothing to mistake")
	err = p.Wait(t.Context(), pacer.Lane("batch"), pacer.CostOf("rate.batch", 2))
	require.ErrorContains(t, err, `is a part of policy "rate"`)
	_, err = pacer.New(pacer.Config{Upstream: "test", Policies: []policies.Policy{policies.PerSecond(10).Burst(1).Lane("batch", 50)}})
	require.ErrorContains(t, err, "a burst of 2 or more")
	_, err = pacer.New(pacer.Config{Upstream: "test", Policies: []policies.Policy{
		policies.PerSecond(10).Burst(2).Lane("batch", 50).Named("a"), policies.PerSecond(9).Named("a.batch"),
	}})
	require.ErrorContains(t, err, "lane's part")
}

// gone is when a call went, by who made it.
type gone struct {
	who string
	at  time.Duration
}

// crowd has workers call as fast as they may for a time, and returns when calls went.
func crowd(t *testing.T, p *pacer.Pacer, lasts time.Duration, workers map[string]int, opts func(who string) []pacer.Option) func() []gone {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	var mu sync.Mutex
	var all []gone
	var working sync.WaitGroup
	start := time.Now()
	for who, n := range workers {
		for range n {
			working.Go(func() {
				for {
					err := p.Wait(ctx, append(opts(who), pacer.MaxWait(pacer.Forever))...)
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					all = append(all, gone{who, time.Since(start)})
					mu.Unlock()
				}
			})
		}
	}
	return func() []gone {
		working.Wait()
		cancel()
		slices.SortFunc(all, func(a, b gone) int { return int(a.at - b.at) })
		return all
	}
}

// conforms checks that n calls never span less than a rate with a burst lets them.
func conforms(t *testing.T, all []gone, interval time.Duration, burst int) {
	t.Helper()
	tat := time.Duration(0)
	for _, g := range all {
		require.GreaterOrEqual(t, g.at, tat-time.Duration(burst-1)*interval-time.Microsecond, "too early")
		tat = max(tat, g.at) + interval
	}
}

// A deep line of batch calls does not delay the others, and what those leave is used.
func TestALaneLeavesRoomAndUsesWhatIsLeft(t *testing.T) {
	t.Parallel()
	for _, burst := range []int64{2, 10} {
		synctest.Test(t, func(t *testing.T) {
			p := newPacer(t, limits(policies.PerSecond(100).Burst(burst).Lane("batch", 80)))
			const lasts = 20 * time.Second
			result := crowd(t, p, lasts, map[string]int{"batch": extent(500, 5000)}, func(string) []pacer.Option { return []pacer.Option{pacer.Lane("batch")} })
			time.Sleep(2 * time.Second)
			var waits []time.Duration
			start := time.Now()
			rng := rand.New(rand.NewPCG(1, 2))
			interactive := 0
			for time.Since(start) < 10*time.Second {
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(100*time.Millisecond)))
				began := time.Now()
				require.NoError(t, p.Wait(t.Context()))
				waits = append(waits, time.Since(began))
				interactive++
			}
			all := result()
			slices.Sort(waits)
			p50, p99 := waits[len(waits)/2], waits[len(waits)*99/100]
			used := float64(len(all)+interactive) / (100 * lasts.Seconds())
			t.Logf("burst %d: %d batch, %d others, which waited p50 %v p99 %v; used %.3f", burst, len(all), interactive, p50, p99, used)
			require.LessOrEqual(t, p50, 50*time.Millisecond)
			require.LessOrEqual(t, p99, 250*time.Millisecond)
			require.GreaterOrEqual(t, used, 0.97)
			conforms(t, all, 10*time.Millisecond, int(burst))
		})
	}
}

// A lane gets no more of a window than its quota: nothing is lent.
func TestAQuotaIsNeverLent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Daily(1000, time.UTC).Lane("batch", 80).Named("day")))
		for range 800 {
			require.NoError(t, p.Wait(t.Context(), pacer.Lane("batch")))
		}
		var limit *pacer.LimitError
		require.ErrorAs(t, p.Wait(t.Context(), pacer.Lane("batch")), &limit)
		require.Equal(t, "day.batch", limit.Policy)
		for range 200 {
			require.NoError(t, p.Wait(t.Context()))
		}
		require.ErrorAs(t, p.Wait(t.Context()), &limit)
		require.Equal(t, "day", limit.Policy)
	})
}

// Competing tenants get equal parts by weight; unused parts go to the others; nothing is left idle.
func TestFairShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(100).Burst(5).Fair("tenant")))
		weights := map[string]int64{"light": 1, "heavy": 3, "guest": 2}
		opts := func(who string) []pacer.Option {
			return []pacer.Option{pacer.Scope("tenant", who), pacer.Weight(weights[who])}
		}
		const lasts = 30 * time.Second
		two := crowd(t, p, lasts, map[string]int{"light": 200, "heavy": 20}, opts)
		time.Sleep(10 * time.Second)
		guest := crowd(t, p, 10*time.Second, map[string]int{"guest": 20}, opts)
		all := slices.Concat(guest(), two())
		for i := range all {
			if all[i].who == "guest" {
				all[i].at += 10 * time.Second
			}
		}
		slices.SortFunc(all, func(a, b gone) int { return int(a.at - b.at) })
		conforms(t, all, 10*time.Millisecond, 5)
		t.Logf("%d of %v", len(all), 100*lasts.Seconds())
		require.GreaterOrEqual(t, float64(len(all)), 0.98*100*lasts.Seconds())
		for i, want := range []map[string]float64{{"light": 250, "heavy": 750}, {"light": 1000.0 / 6, "heavy": 500, "guest": 1000.0 / 3}, {"light": 250, "heavy": 750}} {
			got := make(map[string]float64)
			for _, g := range all {
				if int(g.at/(10*time.Second)) == i {
					got[g.who]++
				}
			}
			t.Log(got)
			for who, n := range want {
				require.InEpsilon(t, n, got[who], 0.05, "%s in part %d", who, i)
			}
		}
		require.ErrorContains(t, p.Wait(t.Context()), "carries no tenant")
		require.ErrorContains(t, p.Wait(t.Context(), pacer.Scope("tenant", "a"), pacer.Weight(0)), "Weight is 0")
	})
}

// A tenant whose calls give up while they are queued gets as much as one whose calls wait.
func TestCallsThatGiveUpCostTheirShareNothing(t *testing.T) {
	t.Parallel()
	for _, p := range []policies.Policy{policies.PerSecond(20).Fair("tenant"), policies.InFlight(4).Fair("tenant")} {
		synctest.Test(t, func(t *testing.T) {
			paces := newPacer(t, limits(p))
			ctx, cancel := context.WithCancel(t.Context())
			var a, b callers
			a.call(ctx, t, paces, 3, 200*ms, pacer.Scope("tenant", "a"))
			b.call(ctx, t, paces, 6, 200*ms, pacer.Scope("tenant", "b"))
			for range 3 {
				a.wg.Go(func() {
					for ctx.Err() == nil {
						patient, giveUp := context.WithCancel(ctx)
						time.AfterFunc(100*ms, giveUp)
						if r, err := paces.Acquire(patient, pacer.Scope("tenant", "a")); err == nil {
							a.went.Add(1)
							time.Sleep(200 * ms)
							r.Release()
						}
						giveUp()
					}
				})
			}
			time.Sleep(time.Minute)
			cancel()
			a.wg.Wait()
			b.wg.Wait()
			require.InEpsilon(t, b.went.Load(), a.went.Load(), 0.1)
			closing(t, paces)
		})
	}
}

// A permit that is kept empty for its skew when the Pacer is closed comes back then.
func TestCloseDoesNotLosePermitsThatAreKeptEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := pacer.Config{Upstream: "test", Store: memstore.New(), Policies: []policies.Policy{policies.InFlight(1).Skew(time.Second)}}
		p, err := pacer.New(c)
		require.NoError(t, err)
		r, err := p.Acquire(t.Context())
		require.NoError(t, err)
		r.Release()
		require.NoError(t, p.Close())
		other := newPacer(t, c)
		require.Equal(t, int64(1), statusOf(t, other, "in-flight").Remaining)
	})
}

// A call takes one permit, whatever it costs, and a cancelled call's is not renewed.
func TestACancelledPlaceIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.InFlight(2).Lease(3*time.Second), policies.PerSecond(10).Burst(9)))
		defer func() { require.NoError(t, p.Close()) }()
		r, err := p.Reserve(t.Context(), pacer.Cost(5))
		require.NoError(t, err)
		require.Equal(t, int64(1), statusOf(t, p, "in-flight").Remaining)
		other, err := p.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Cancel(t.Context()))
		time.Sleep(10 * time.Second)
		require.Equal(t, int64(1), statusOf(t, p, "in-flight").Remaining)
		_, err = p.Acquire(t.Context(), pacer.CostOf("in-flight", 2))
		require.ErrorContains(t, err, "a call has one permit")
		other.Release()
		_, err = p.Acquire(t.Context(), pacer.CostOf("in-flight", 0))
		require.NoError(t, err)
		require.Equal(t, int64(2), statusOf(t, p, "in-flight").Remaining)
	})
}

// A pause that is lifted is over for queued calls, too, at once.
func TestResumeWakesTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(100).Burst(10).Lane("batch", 50).Named("rate")))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"rate"}, Wait: 30 * time.Second}))
		began := time.Now()
		time.AfterFunc(5*time.Second+time.Millisecond, func() { _ = fleet.Of(p).Resume(context.Background()) })
		require.NoError(t, p.Wait(t.Context(), pacer.Lane("batch")))
		require.Equal(t, 5*time.Second+time.Millisecond, time.Since(began))
	})
}

// A pause holds the queue as it holds other calls, and later calls come at the rate.
func TestAPauseHoldsTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(100).Burst(2).Lane("batch", 50).Named("rate")))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"rate"}, Wait: 10 * time.Second}))
		all := crowd(t, p, 12*time.Second, map[string]int{"batch": 500}, func(string) []pacer.Option { return []pacer.Option{pacer.Lane("batch")} })()
		require.GreaterOrEqual(t, all[0].at, 10*time.Second)
		conforms(t, all, 10*time.Millisecond, 2)
		require.InEpsilon(t, 200, len(all), 0.1, "the lane is alone")
	})
}

// A call that gives its slot up for want of a permit is queued where it would have stood from the start.
func TestAnEarlierCallStandsBeforeLaterOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.InFlight(1), policies.Every(10*time.Second).Burst(3).Per("tenant").Optional().Named("own")))
		held, err := p.Acquire(t.Context())
		require.NoError(t, err)
		order := make(chan string, 3)
		call := func(name string, opts ...pacer.Option) {
			go func() {
				r, err := p.Acquire(t.Context(), append(opts, pacer.MaxWait(time.Hour))...)
				if err != nil {
					t.Error(err)
				}
				order <- name
				r.Release()
			}()
			synctest.Wait()
		}
		call("first", pacer.Scope("tenant", "a"), pacer.NotBefore(20*time.Second)) // it gets a slot
		time.Sleep(time.Second)
		call("second")
		time.Sleep(30 * time.Second)
		call("third")
		held.Release()
		require.Equal(t, []string{"first", "second", "third"}, []string{<-order, <-order, <-order})
	})
}

// A pause moves sleeping calls, possibly one whose turn it is in the queue: a notification arrives while another is handled.
func TestAPauseThatWakesTheNextInTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.InFlight(1), policies.Every(4*time.Millisecond).Burst(1).Named("rate")))
		first, err := p.Acquire(t.Context())
		require.NoError(t, err)
		first.Release()
		done := make(chan error, 2)
		for range 2 { // one has the permit and sleeps until its slot, the other is queued
			go func() {
				r, err := p.Acquire(t.Context())
				if err == nil {
					r.Release()
				}
				done <- err
			}()
			synctest.Wait()
		}
		require.Equal(t, int64(1), statusOf(t, p, "in-flight").Queued)
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"rate"}, Wait: 30 * time.Second}))
		time.Sleep(20 * time.Second)
		require.Equal(t, int64(1), statusOf(t, p, "in-flight").Remaining, "nobody holds a permit until the pause is over")
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.NoError(t, p.Close())
	})
}

// interposed is a store that does something after it has queued a call, before the call receives that.
type interposed struct {
	*memstore.Store

	queued func()
}

func (s *interposed) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	err := s.Store.Reserve(ctx, stack, calls, grants)
	if err == nil && grants[0].Queued && s.queued != nil {
		s.queued()
	}
	return err
}

// A call that is woken before it knows that it is queued, or during its next request, does not wait in vain.
func TestAWakeThatComesTooSoonIsReceived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &interposed{Store: memstore.New()}
		p := newPacer(t, pacer.Config{Store: store, Policies: []policies.Policy{policies.InFlight(1)}})
		defer func() { require.NoError(t, p.Close()) }()
		held, err := p.Acquire(t.Context())
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), pacer.MaxWait(time.Millisecond)) // from now on it listens
		require.ErrorIs(t, err, pacer.ErrNotYet)
		for _, asks := range []int{1, 2} {
			synctest.Wait()
			n := 0
			store.queued = func() {
				if n++; n == asks {
					held.Release()
					synctest.Wait()
				}
			}
			began := time.Now()
			next, err := p.Acquire(t.Context())
			require.NoError(t, err)
			require.Equal(t, time.Duration(asks-1)*time.Second, time.Since(began), "it asked %d times in vain", asks)
			held = next
		}
		held.Release()
	})
}

// Leases of different lengths are each renewed in time.
func TestAShortLeaseBesideALongOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(
			policies.InFlight(9).Lease(time.Minute).Named("long"), policies.InFlight(9).Lease(time.Second).Per("tenant").Optional().Named("short"),
		))
		defer func() { require.NoError(t, p.Close()) }()
		_, err := p.Acquire(t.Context())
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), pacer.Scope("tenant", "a"))
		require.NoError(t, err)
		for range 100 {
			time.Sleep(500 * time.Millisecond)
			require.Equal(t, int64(8), statusOf(t, p, "short", pacer.Scope("tenant", "a")).Remaining)
			require.Equal(t, int64(7), statusOf(t, p, "long").Remaining)
		}
	})
}

// An error of a call that had waited contains how much longer it could still have waited, and how much in all.
func TestARefusalAfterAWaitReportsWhatWasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1)))
		require.NoError(t, p.Wait(t.Context()))
		require.NoError(t, p.Wait(t.Context()))
		time.AfterFunc(400*ms, func() { _ = p.Report(t.Context(), policies.Feedback{Wait: 5 * time.Second}) })
		err := p.Wait(t.Context(), pacer.MaxWait(4*time.Second))
		require.EqualError(t, err, `pacer: upstream "test": paused until 2000-01-01 00:00:06: the next slot is 5s away, further than what is left (3.6s) of the longest wait allowed (4s): `+
			`try again then, or raise MaxWait`)
		var limit *pacer.LimitError
		require.ErrorAs(t, err, &limit)
		require.Equal(t, []time.Duration{5 * time.Second, 4 * time.Second, 400 * ms}, []time.Duration{limit.Wait, limit.MaxWait, limit.Waited})
	})
}
