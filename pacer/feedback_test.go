package pacer_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
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

// counting counts the reports that it receives.
type counting struct {
	store.Store

	reports atomic.Int64
}

func (c *counting) Report(ctx context.Context, st store.Stack, notes []store.Note) (store.Instant, int, error) {
	c.reports.Add(1)
	return c.Store.Report(ctx, st, notes)
}

func status(t *testing.T, p *pacer.Pacer, policy string, opts ...pacer.ScopeOption) pacer.PolicyStatus {
	t.Helper()
	s, err := p.Status(t.Context(), opts...)
	require.NoError(t, err)
	for _, one := range s.Policies {
		if one.Policy.Name() == policy {
			return one
		}
	}
	require.Fail(t, "no policy "+policy)
	return pacer.PolicyStatus{}
}

func left(n int64, policy ...string) policies.Feedback {
	return policies.Feedback{Policies: policy, Remaining: policies.Reported(n)}
}

func TestCountsCanBeIgnored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memstore.New()}
		p := newPacer(t, pacer.Config{Store: store, IgnoreCounts: true, Policies: []policies.Policy{policies.Daily(10, time.UTC).Named("daily")}})
		require.NoError(t, p.Report(t.Context(), left(0, "daily")))
		require.Zero(t, store.reports.Load())
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"daily"}, Remaining: policies.Reported(0), Wait: time.Second}))
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet, "a pause is heeded")
	})
}

func TestALowerLimitIsKeptWhileItIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy policies.Policy
		pace   int64 // at half the limit
	}{
		"rate":    {policies.PerSecond(10).Named("p"), 200_000},
		"at most": {policies.AtMost(10, time.Second).Skew(0).Named("p"), 200_000},
		"window":  {policies.Fixed(10, time.Second).Named("p"), 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &counting{Store: memstore.New()}
				p := newPacer(t, pacer.Config{Store: store, Policies: []policies.Policy{c.policy}})
				say := func(n int64) {
					require.NoError(t, p.Report(t.Context(), policies.Feedback{Limit: policies.Reported(n), Window: time.Second}))
				}
				whole := status(t, p, "p").Pace
				say(20)
				require.Equal(t, whole, status(t, p, "p").Pace, "a higher limit than ours changes nothing")
				require.Zero(t, store.reports.Load())
				for range 60 {
					say(5)
					require.Equal(t, c.pace, status(t, p, "p").Pace)
					time.Sleep(time.Second)
				}
				require.LessOrEqual(t, store.reports.Load(), int64(15), "it is not reported each time")
				time.Sleep(20 * time.Second)
				require.Equal(t, whole, status(t, p, "p").Pace, "it is not said any more")
				say(5)
				say(10)
				require.Equal(t, whole, status(t, p, "p").Pace, "it is taken back")
			})
		})
	}
}

// When nothing is left, no call goes until there is more: sleeping calls give their slots back.
func TestNothingLeftIsAPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reset, want time.Duration
	}{
		"until the reset": {5 * time.Second, 5 * time.Second},
		"if that cannot be, until the policy has more": {math.MaxInt64, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, pacer.Config{MaxPause: 30 * time.Second, Policies: []policies.Policy{policies.PerSecond(1).Named("p")}})
				require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
				start := time.Now()
				done := make(chan time.Duration)
				go func() {
					assert.NoError(t, p.Wait(t.Context()))
					done <- time.Since(start)
				}()
				synctest.Wait()
				require.NoError(t, p.Report(t.Context(), policies.Feedback{Remaining: policies.Reported(0), Window: time.Second, Reset: c.reset}))
				require.Equal(t, c.want, <-done)
			})
		})
	}
}

func TestWhomFeedbackConcernsOtherwise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(1000).Burst(100).Named("all")))
		reported := policies.Feedback{Wait: time.Second, Policies: []string{"search"}}
		var ce *pacer.ConfigError
		require.ErrorAs(t, p.Report(t.Context(), reported), &ce, "a name that nobody has is a mistake")
		reported.Otherwise = policies.TheCall
		require.NoError(t, p.Report(t.Context(), reported))
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)), "a narrow limit that we do not know holds nobody else back")
		reported.Otherwise = policies.Everyone
		require.NoError(t, p.Report(t.Context(), reported))
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
	})
}

func TestBadFeedback(t *testing.T) {
	t.Parallel()
	p := newPacer(t, limits(policies.PerSecond(1)))
	for _, f := range []policies.Feedback{{Wait: -1}, {Window: -1}, {Reset: -1}} {
		var ce *pacer.ConfigError
		require.ErrorAs(t, p.Report(t.Context(), f), &ce)
	}
}

// A refusal slows an adaptive rate down, and sleeping calls keep to the new pace.
func TestWaitersKeepToASlowerPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(10).Adaptive(policies.Adaptation{})))
		start := time.Now()
		went := make(chan time.Duration, 8)
		for range 5 {
			go func() {
				assert.NoError(t, p.Wait(t.Context()))
				went <- time.Since(start)
			}()
			synctest.Wait()
		}
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Refused: true}))
		for _, want := range []time.Duration{0, 100 * ms, 300 * ms, 500 * ms, 700 * ms} {
			require.Equal(t, want, <-went)
		}
	})
}

// Pacers of one process that share a store receive each other's pauses, until they are closed.
func TestPacersOnOneStoreHearOfPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		c := pacer.Config{Store: store, Policies: []policies.Policy{policies.PerSecond(1)}}
		one, other := newPacer(t, c), newPacer(t, c)
		require.NoError(t, one.Wait(t.Context()))
		require.Equal(t, 2, store.Listeners(), "each hears of what operators set, too")
		start := time.Now()
		done := make(chan time.Duration)
		go func() {
			assert.NoError(t, other.Wait(t.Context()))
			done <- time.Since(start)
		}()
		synctest.Wait()
		require.NoError(t, one.Report(t.Context(), policies.Feedback{Wait: 7 * time.Second}))
		require.Equal(t, 7*time.Second, <-done)
		require.NoError(t, other.Close())
		require.Equal(t, 1, store.Listeners())
		require.NoError(t, one.Close())
		require.Zero(t, store.Listeners())
	})
}

// Calls that no policy binds wait for the end of a pause, too, and do not all go at the same instant.
func TestTheEndOfAPauseIsSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Jitter: time.Second})
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Second}))
		start := time.Now()
		at := make(map[time.Duration]bool)
		went := make(chan time.Duration)
		for range 100 {
			go func() {
				assert.NoError(t, p.Wait(t.Context()))
				went <- time.Since(start)
			}()
		}
		for range 100 {
			d := <-went
			require.GreaterOrEqual(t, d, time.Second)
			require.LessOrEqual(t, d, 2*time.Second)
			at[d] = true
		}
		require.Greater(t, len(at), 50)
	})
}

// Refusals of calls that were under way together count as one; a later call counts again. A single one is stray.
func TestRefusalsOfOneMomentCountOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(10).Burst(5).Adaptive(policies.Adaptation{Hold: time.Minute}).Named("p")))
		var calls []*pacer.Reservation
		for range 4 {
			r, err := p.Reserve(t.Context())
			require.NoError(t, err)
			require.NoError(t, r.Wait(t.Context()))
			calls = append(calls, r)
		}
		refused := func(r *pacer.Reservation, want int64, why string) {
			t.Helper()
			require.NoError(t, r.Report(t.Context(), policies.Feedback{Refused: true}))
			require.Equal(t, want, status(t, p, "p").Pace, why)
		}
		for _, r := range calls {
			time.Sleep(100 * time.Millisecond)
			refused(r, 100_000, "as good as one alone")
		}
		for i, want := range []int64{200_000, 200_000, 400_000} {
			later, err := p.Reserve(t.Context())
			require.NoError(t, err)
			require.NoError(t, later.Wait(t.Context()))
			refused(later, want, []string{"half", "one alone", "a quarter"}[i])
			if i == 0 {
				time.Sleep(3 * time.Second)
			}
		}
	})
}

// A call that has its slot, and goes to sleep only after two pauses were reported, heeds the longer one.
func TestAShorterPauseDoesNotHideALongerOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Every(5*time.Second)))
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		start := time.Now()
		r, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 10 * time.Second}))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Second}))
		require.NoError(t, r.Wait(t.Context()))
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

// An allowance left until a reset binds calls before it, and none after: under any policy, and whether it is stated first or last.
func TestWhatIsLeftBindsUntilTheReset(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]policies.Policy{
		"sliding": policies.Sliding(1000, time.Hour), "a day": policies.Daily(10_000, time.UTC), "fixed": policies.Fixed(1000, 10*time.Minute),
		"a rate": policies.PerMinute(6000).Burst(50), "at most": policies.AtMost(6000, time.Minute).Burst(50),
	} {
		for first := range int64(3) { // what the first answer states
			t.Run(fmt.Sprintf("%s, %d", name, first), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					p := newPacer(t, pacer.Config{MaxWait: time.Hour, Policies: []policies.Policy{policy.Named("p")}})
					start := time.Now()
					reset := start.Add(30 * time.Second)
					for n := first; n >= 0; n-- {
						require.NoError(t, p.Do(t.Context(), leaves("p", n, time.Until(reset))))
						require.Less(t, time.Since(start), 5*time.Second)
					}
					require.NoError(t, p.Wait(t.Context()))
					require.Equal(t, 30*time.Second, time.Since(start))
				})
			})
		}
	}
}

// Calls that cost more than is left until a reset go after it, however slow their policy is until then.
func TestDearCallsGoAfterTheReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{MaxWait: time.Hour, Policies: []policies.Policy{policies.PerMinute(6000).Burst(50)}})
		f := policies.Feedback{Limit: policies.Reported(6000), Window: time.Minute, Remaining: policies.Reported(2), Reset: 50 * time.Second}
		require.NoError(t, p.Report(t.Context(), f))
		start := time.Now()
		for _, want := range []time.Duration{50 * time.Second, 50200 * ms, 50300 * ms} {
			require.NoError(t, p.Wait(t.Context(), pacer.Cost(20)))
			require.Equal(t, want, time.Since(start))
		}
	})
}

// leaves returns a call whose answer states what is left of a policy.
func leaves(policy string, n int64, reset time.Duration) func(context.Context) (policies.Reading, error) {
	return func(context.Context) (policies.Reading, error) {
		f := left(n, policy)
		f.Reset = reset
		return policies.Reading{Feedback: []policies.Feedback{f}}, nil
	}
}

// A reading of no policy's binds the upstream: it is not dropped for not fitting.
func TestAReadingThatFitsNoPolicyBinds(t *testing.T) {
	t.Parallel()
	for name, stack := range map[string][]policies.Policy{
		"two policies":       {policies.PerSecond(10), policies.Daily(10_000, time.UTC)},
		"beside in flight":   {policies.PerSecond(10), policies.InFlight(5)},
		"a tenant's":         {policies.PerSecond(10).Per("tenant")},
		"faster than stated": {policies.PerSecond(100)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, pacer.Config{MaxWait: time.Hour, Policies: stack})
				acme := pacer.Scope("tenant", "acme")
				start := time.Now()
				said := policies.Feedback{Limit: policies.Reported(60), Remaining: policies.Reported(0), Reset: 7 * time.Second, Source: "X-RateLimit"}
				answer := func(context.Context) (policies.Reading, error) {
					return policies.Reading{Feedback: []policies.Feedback{said}}, nil
				}
				for i := range 3 {
					require.NoError(t, p.Do(t.Context(), answer, acme))
					require.Equal(t, time.Duration(i)*7*time.Second, time.Since(start))
				}
				var limit *pacer.LimitError
				require.ErrorAs(t, p.Wait(t.Context(), acme, pacer.MaxWait(0)), &limit)
				require.Equal(t, pacer.Paused, limit.Reason)
				require.ErrorContains(t, limit, "paused until 2000-01-01 00:00:21 by X-RateLimit: the next slot is 7s away")
				require.Equal(t, 7*time.Second, retryAfter(limit))
				s, err := p.Status(t.Context(), acme)
				require.NoError(t, err)
				require.Equal(t, []pacer.Allowance{{Limit: "60", For: 7 * time.Second, Source: "X-RateLimit"}}, s.Allowances)
				require.NoError(t, fleet.Of(p).Resume(t.Context(), acme))
				require.NoError(t, p.Wait(t.Context(), acme))
				require.LessOrEqual(t, time.Since(start), 14100*ms)
			})
		})
	}
}

// The first reading of a process counts those of its calls that the store does not know, and no others.
func TestCallsOnTheirWayCountOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := limits(policies.PerMinute(6000).Burst(100).Named("p"))
		c.Store = memstore.New()
		p, q := newPacer(t, c), newPacer(t, c)
		goes := func(p *pacer.Pacer) *pacer.Reservation {
			r, err := p.Acquire(t.Context(), pacer.Tracked())
			require.NoError(t, err)
			return r
		}
		said := left(60, "p")
		said.Reset = 20 * time.Second
		early, unknown, other := goes(p), goes(p), goes(q)
		require.NoError(t, other.Report(t.Context(), said))
		synctest.Wait()
		known := goes(p)
		require.NoError(t, early.Report(t.Context(), said))
		require.Equal(t, int64(58), status(t, p, "p").Remaining, "two are on their way")
		require.NoError(t, known.Report(t.Context()))
		require.NoError(t, unknown.Report(t.Context()))
		require.Equal(t, int64(58), status(t, p, "p").Remaining, "they have their part, and none is on its way")
	})
}

// A limit's use is what it allows less what is left, and an old answer gives nothing back.
func TestWhatIsUsedIsNotLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Daily(10, time.UTC).Named("daily"), policies.PerSecond(1000).Burst(100)))
		slow, err := p.Reserve(t.Context(), pacer.Tracked())
		require.NoError(t, err)
		require.NoError(t, slow.Wait(t.Context()))
		time.Sleep(time.Second)
		require.NoError(t, p.Do(t.Context(), func(context.Context) (policies.Reading, error) {
			used := policies.Feedback{Policies: []string{"daily"}, Used: policies.Reported(8), Limit: policies.Reported(10), Reset: time.Hour}
			return policies.Reading{Feedback: []policies.Feedback{used}}, nil
		}))
		require.Equal(t, int64(1), status(t, p, "daily").Remaining, "two are left, of which one is on its way")
		require.NoError(t, slow.Report(t.Context(), left(9, "daily")))
		require.Equal(t, int64(2), status(t, p, "daily").Remaining)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		var le *pacer.LimitError
		require.ErrorAs(t, p.Wait(t.Context()), &le)
		require.Equal(t, "daily", le.Policy)
	})
}

// A reading on each reply costs few requests: answers go to a shared store together, for a lone caller and for many, whether or not they wait
// for the reset, and whatever the stack.
func TestReadingsCostFewRequests(t *testing.T) {
	t.Parallel()
	hour, minute, rate := policies.Sliding(100_000, time.Hour).Named("p"), policies.Fixed(100, time.Minute).Named("p"), policies.Rate(100, time.Minute).Named("p")
	for _, c := range []struct {
		callers int
		stack   []policies.Policy
		lasts   time.Duration
		ratio   float64
		keys    []pacer.Credential
	}{
		{1, []policies.Policy{hour}, 20 * time.Second, 1.2, nil},
		{16, []policies.Policy{hour}, 20 * time.Second, 1.2, nil},
		{32, []policies.Policy{minute}, 2 * time.Minute, 1.5, nil},
		{32, []policies.Policy{minute, policies.InFlight(8)}, extent(4*time.Minute, 8*time.Minute), 1.5, nil},
		{32, []policies.Policy{rate}, extent(2*time.Minute, 4*time.Minute), 1.5, nil},
		{32, []policies.Policy{rate, policies.InFlight(8)}, extent(4*time.Minute, 8*time.Minute), 1.5, nil},
		{32, []policies.Policy{minute.Per("key")}, extent(2*time.Minute, 4*time.Minute), 1.5, []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}}},
		{32, []policies.Policy{rate.Per("key")}, extent(2*time.Minute, 4*time.Minute), 1.5, []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}}},
	} {
		most, period := c.stack[0].Limit()
		requests := func(reads bool) (perCall float64) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote(1)
				r.hangs = ms
				p := away(t, r, pacer.PaceLocally, c.stack...)
				defer closing(t, p)
				acquire := p.Acquire
				if c.keys != nil {
					acquire = newPool(t, p, c.keys...).Acquire
				}
				one, err := acquire(t.Context())
				require.NoError(t, err)
				one.Release()
				begin, start := r.count(), time.Now()
				var mu sync.Mutex
				spent := make(map[string]int64) // by window
				calls := 0
				var all sync.WaitGroup
				for range c.callers {
					all.Go(func() {
						for time.Since(start) < c.lasts {
							one, err := acquire(t.Context(), pacer.MaxWait(pacer.Forever), pacer.Tracked())
							require.NoError(t, err)
							now := time.Now()
							begun := now.Truncate(period)
							mu.Lock()
							window := one.Credential() + begun.String()
							spent[window]++
							calls++
							f := left(max(0, most-spent[window]), "p")
							mu.Unlock()
							time.Sleep(50 * ms)
							f.Limit, f.Reset = policies.Reported(most), begun.Add(period).Sub(now).Truncate(time.Second)+time.Second
							if reads {
								require.NoError(t, one.Report(t.Context(), f))
							}
							one.Release()
						}
					})
				}
				all.Wait()
				perCall = float64(r.count()-begin) / float64(calls)
			})
			return perCall
		}
		without, with := requests(false), requests(true)
		t.Logf("%d callers of %v, %d keys: %.2f requests a call without readings, %.2f with", c.callers, c.stack, len(c.keys), without, with)
		require.LessOrEqual(t, with, c.ratio*without)
	}
}

// A booking has a slot behind earlier feedback, and moves behind later feedback.
func TestABookingHeedsWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Fixed(100, time.Hour).Named("p")))
		before, _, err := p.Book(t.Context())
		require.NoError(t, err)
		said := left(0, "p")
		said.Reset = 20 * time.Second
		require.NoError(t, p.Report(t.Context(), said))
		after, wait, err := p.Book(t.Context())
		require.NoError(t, err)
		require.Equal(t, 20*time.Second, wait)
		_, err = p.Redeem(t.Context(), before)
		var later *pacer.LimitError
		require.ErrorAs(t, err, &later)
		require.True(t, later.Moved)
		time.Sleep(20100 * ms)
		for _, token := range []string{before, after} {
			r, err := p.Redeem(t.Context(), token)
			require.NoError(t, err)
			r.Release()
		}
		require.Equal(t, int64(98), status(t, p, "p").Remaining)
	})
}

// After a pause one call goes first, of all that share a store, and the others when it was answered.
func TestAfterAPauseOneCallGoesFirst(t *testing.T) {
	t.Parallel()
	for _, pause := range []policies.Feedback{
		{Refused: true, Wait: 10 * time.Second, Certain: true}, {Refused: true, Wait: 10 * time.Second, Policies: []string{"rate"}, Certain: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := pacer.Config{Store: memstore.New(), Policies: []policies.Policy{policies.PerSecond(100).Burst(20).Named("rate")}}
			var went starts
			ctx, cancel := context.WithCancel(t.Context())
			var refused atomic.Bool
			var wg sync.WaitGroup
			began := time.Now()
			for range 2 {
				p := newPacer(t, c)
				for range 16 {
					wg.Go(func() {
						for ctx.Err() == nil {
							_ = p.Do(ctx, func(context.Context) (reading policies.Reading, err error) {
								went.add()
								time.Sleep(50 * ms)
								if time.Since(began) > time.Second && refused.CompareAndSwap(false, true) {
									reading.Feedback = []policies.Feedback{pause}
								}
								return reading, nil
							}, pacer.MaxWait(pacer.Forever))
						}
					})
				}
			}
			time.Sleep(2 * time.Second)
			require.True(t, refused.Load())
			before := went.count()
			time.Sleep(8 * time.Second)
			require.Equal(t, before, went.count(), "paused")
			time.Sleep(time.Second + 90*ms)
			went.mu.Lock()
			after := slices.Clone(went.all[before:])
			went.mu.Unlock()
			first := after[0]
			for i, at := range after {
				require.True(t, i == 0 || at.Sub(first) >= 50*ms, "call %d started %v after the first", i, at.Sub(first))
			}
			time.Sleep(time.Second)
			require.Greater(t, went.count(), before+80, "the first was answered")
			cancel()
			wg.Wait()
		})
	}
}
