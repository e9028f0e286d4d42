package pacer_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
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

func status(t *testing.T, p *pacer.Pacer, policy string, opts ...pacer.Option) pacer.PolicyStatus {
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

func TestWhatOthersSpendIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Daily(10, time.UTC).Named("daily"), policies.PerSecond(1000).Burst(100)))
		require.NoError(t, p.Allow(t.Context()))
		require.NoError(t, p.Report(t.Context(), left(3, "daily")))
		require.Equal(t, int64(3), status(t, p, "daily").Remaining)
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"daily"}, Used: policies.Reported(9), Limit: policies.Reported(10)}))
		require.Equal(t, int64(3), status(t, p, "daily").Remaining, "it is not reported so soon after the last one")
		time.Sleep(time.Second)
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"daily"}, Used: policies.Reported(9), Limit: policies.Reported(10)}))
		require.Equal(t, int64(1), status(t, p, "daily").Remaining)
		time.Sleep(time.Second)
		require.NoError(t, p.Report(t.Context(), left(8, "daily")))
		require.Equal(t, int64(1), status(t, p, "daily").Remaining, "an old answer loosens nothing")
		require.NoError(t, p.Allow(t.Context()))
		var le *pacer.LimitError
		require.ErrorAs(t, p.Wait(t.Context()), &le)
		require.Equal(t, "daily", le.Policy)
	})
}

func TestCountsCanBeIgnored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memstore.New()}
		p := newPacer(t, pacer.Config{Store: store, IgnoreCounts: true, Policies: []policies.Policy{policies.Daily(10, time.UTC).Named("daily")}})
		require.NoError(t, p.Report(t.Context(), left(0, "daily")))
		require.Zero(t, store.reports.Load())
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"daily"}, Remaining: policies.Reported(0), Wait: time.Second}))
		require.ErrorIs(t, p.Allow(t.Context()), pacer.ErrNotYet, "a pause is heeded")
	})
}

// Answers that say what is expected cost nothing: of a thousand, a handful is reported to the store, and none to the end of the step.
func TestOnlyWhatIsMaterialIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memstore.New()}
		p := newPacer(t, pacer.Config{Store: store, Policies: []policies.Policy{policies.Daily(100_000, time.UTC).Named("daily")}})
		const calls = 10_000
		for i := range int64(calls) {
			r, err := p.Reserve(t.Context(), pacer.Tracked())
			require.NoError(t, err)
			require.NoError(t, r.Wait(t.Context()))
			time.Sleep(5 * ms)
			require.NoError(t, r.Report(t.Context(), policies.Feedback{
				Policies: []string{"daily"}, Limit: policies.Reported(100_000), Used: policies.Reported(i + 1), Window: 24 * time.Hour,
			}))
		}
		require.LessOrEqual(t, store.reports.Load(), int64(10))
		require.Equal(t, int64(100_000-calls), status(t, p, "daily").Remaining, "nothing was counted twice")
	})
}

// Answers overtake each other, and calls are on their way: what the upstream says is never taken for others' spending
// if it is our own.
func TestOurOwnCallsAreNotTakenForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Daily(1000, time.UTC).Named("daily")))
		used := int64(0) // by the upstream's count
		type answer struct {
			r    *pacer.Reservation
			used int64
		}
		var late []answer
		for i := range 400 {
			r, err := p.Reserve(t.Context(), pacer.Tracked())
			require.NoError(t, err)
			require.NoError(t, r.Wait(t.Context()))
			used++
			late = append(late, answer{r, used})
			time.Sleep(30 * ms)
			if i%7 == 3 { // the answers of the last calls come in the opposite order
				for len(late) > 0 {
					a := late[len(late)-1]
					late = late[:len(late)-1]
					require.NoError(t, a.r.Report(t.Context(), policies.Feedback{Policies: []string{"daily"}, Remaining: policies.Reported(1000 - a.used)}))
				}
			}
		}
		// At most what was on its way at once is counted twice, and only until the window is over.
		got := status(t, p, "daily").Remaining
		require.LessOrEqual(t, got, 1000-used)
		require.GreaterOrEqual(t, got, 1000-used-8-6)
	})
}

func TestUnnamedCountsAreOfThePolicyWithTheirWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		daily, tenant := policies.Daily(1000, time.UTC).Named("daily"), policies.Fixed(100, time.Minute).Per("tenant").Named("tenant")
		p := newPacer(t, limits(policies.PerSecond(100).Burst(50), daily, tenant))
		acme := pacer.Scope("tenant", "acme")
		reported := func(n int64, window time.Duration) policies.Feedback {
			return policies.Feedback{Remaining: policies.Reported(n), Window: window}
		}
		require.NoError(t, p.Report(t.Context(), reported(7, 24*time.Hour), acme))
		require.NoError(t, p.Report(t.Context(), reported(5, time.Minute), acme))
		require.NoError(t, p.Report(t.Context(), reported(1, time.Hour), acme), "no policy has that window")
		require.NoError(t, p.Report(t.Context(), reported(1, 0), acme), "it could be about any")
		require.Equal(t, int64(7), status(t, p, "daily", acme).Remaining)
		require.Equal(t, int64(5), status(t, p, "tenant", acme).Remaining)
		require.Equal(t, int64(100), status(t, p, "tenant", pacer.Scope("tenant", "other")).Remaining)
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

// A limit per minute, reported for a policy per second, is the same pace.
func TestALowerLimitOverAnotherTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(10).Named("p")))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"p"}, Limit: policies.Reported(300), Window: time.Minute}))
		require.Equal(t, int64(200_000), status(t, p, "p").Pace)
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"p"}, Limit: policies.Reported(0), Window: time.Minute}))
		require.Equal(t, int64(60_000_000), status(t, p, "p").Pace, "at least one goes")
	})
}

// A limit over a longer time than the policy's is kept over that time, even if it is less than one call in the policy's.
func TestALimitOverALongerTimeIsKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit  int64
		window time.Duration
	}{{30, time.Minute}, {1000, time.Hour}, {7, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			p := newPacer(t, limits(policies.PerSecond(10).Named("p")))
			start, calls := time.Now(), int64(0)
			for time.Since(start) < c.window {
				require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"p"}, Limit: policies.Reported(c.limit), Window: c.window}))
				require.NoError(t, p.Wait(t.Context()))
				calls++
			}
			require.LessOrEqual(t, calls, c.limit+1, "the last one is of the next window")
			require.GreaterOrEqual(t, calls, c.limit)
		})
	}
}

// What is left is spread over the rest of the upstream's window, if a rate would spend it sooner.
func TestWhatIsLeftIsSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerMinute(600).Named("p")))
		reported := func(n int64) policies.Feedback {
			return policies.Feedback{Remaining: policies.Reported(n), Window: time.Minute, Reset: 20 * time.Second}
		}
		require.NoError(t, p.Report(t.Context(), reported(190)))
		require.Equal(t, int64(100_000), status(t, p, "p").Pace, "that is nearly our pace")
		time.Sleep(time.Second)
		require.NoError(t, p.Report(t.Context(), reported(50)))
		require.Equal(t, int64(400_000), status(t, p, "p").Pace)
		time.Sleep(20 * time.Second)
		require.Equal(t, int64(100_000), status(t, p, "p").Pace)
	})
}

// When nothing is left, nothing goes until there is more: those who sleep in the meantime give their slots back.
func TestNothingLeftIsAPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reset, want time.Duration
	}{
		"until the reset":  {5 * time.Second, 5 * time.Second},
		"but not for ever": {math.MaxInt64, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, pacer.Config{MaxPause: 30 * time.Second, Policies: []policies.Policy{policies.PerSecond(1).Named("p")}})
				require.NoError(t, p.Allow(t.Context()))
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
		require.NoError(t, p.Allow(t.Context()), "a narrow limit that we do not know holds nobody else back")
		reported.Otherwise = policies.Everyone
		require.NoError(t, p.Report(t.Context(), reported))
		require.ErrorIs(t, p.Allow(t.Context()), pacer.ErrNotYet)
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

// A refusal slows an adaptive rate down, and those who sleep already keep to the new pace.
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

func TestResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		c := pacer.Config{Store: store, MaxWait: 2 * time.Hour, Policies: []policies.Policy{policies.PerSecond(10).Named("all"), policies.PerSecond(10).Per("tenant").Named("tenant")}}
		p, other := newPacer(t, c), newPacer(t, c)
		acme := pacer.Scope("tenant", "acme")
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Hour}, acme))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Hour, Policies: []string{"tenant"}}, acme))
		start := time.Now()
		went := make(chan time.Duration, 8)
		for range 3 {
			go func() {
				assert.NoError(t, other.Wait(t.Context(), acme))
				went <- time.Since(start)
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		require.NoError(t, p.Resume(t.Context(), acme))
		for _, want := range []time.Duration{time.Minute, time.Minute + 100*ms, time.Minute + 200*ms} {
			require.Equal(t, want, <-went)
		}
		require.Zero(t, status(t, p, "tenant", acme).PausedFor)
	})
}

// Pacers of one process that share a store hear of each other's pauses, until they are closed.
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

// An answer that took long says too little about now.
func TestAStaleAnswerIsNotCompared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Daily(10, time.UTC).Named("daily")))
		for took, want := range map[time.Duration]int64{time.Second: 3, 11 * time.Second: 9} {
			ctx := pacer.WithScope(t.Context(), "unused", took.String())
			p := newPacer(t, limits(policies.Daily(10, time.UTC).Named("daily")))
			r, err := p.Reserve(ctx, pacer.Tracked())
			require.NoError(t, err)
			require.NoError(t, r.Wait(ctx))
			time.Sleep(took)
			require.NoError(t, r.Report(ctx, left(3, "daily")))
			require.Equal(t, want, status(t, p, "daily").Remaining, "%v", took)
		}
		require.Equal(t, int64(10), status(t, p, "daily").Remaining)
	})
}

// Of what is left, calls that are on their way have their part; when they are answered, they have it no more.
func TestCallsOnTheirWayHaveTheirPartOfWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerMinute(6000).Burst(100).Named("p")))
		reported := policies.Feedback{Policies: []string{"p"}, Remaining: policies.Reported(100), Window: time.Minute, Reset: 20 * time.Second}
		var calls []*pacer.Reservation
		for range 51 {
			r, err := p.Reserve(t.Context(), pacer.Tracked())
			require.NoError(t, err)
			require.NoError(t, r.Wait(t.Context()))
			calls = append(calls, r)
		}
		require.NoError(t, calls[0].Report(t.Context(), reported))
		require.Equal(t, int64(400_000), status(t, p, "p").Pace, "20 s for the 50 that are not spoken for")
		for _, r := range calls[1:50] {
			require.NoError(t, r.Report(t.Context()))
		}
		time.Sleep(time.Second)
		reported.Remaining = policies.Reported(40)
		require.NoError(t, calls[50].Report(t.Context(), reported))
		require.Equal(t, int64(500_000), status(t, p, "p").Pace, "20 s for 40")
	})
}

// Refusals of calls that were on their way together count as one; a call that went later counts again. One that comes alone is stray.
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

// A call that has its slot, and goes to sleep only after two pauses were said, heeds the longer one.
func TestAShorterPauseDoesNotHideALongerOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Every(5*time.Second)))
		require.NoError(t, p.Allow(t.Context()))
		start := time.Now()
		r, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 10 * time.Second}))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Second}))
		require.NoError(t, r.Wait(t.Context()))
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

// What is left of a limit that nobody named, and whose window is unknown, may be of another limit than ours: it holds until the upstream
// has more, and is not charged to a day.
func TestCountsOfAnUnknownLimitHoldUntilTheirReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Daily(1000, time.UTC).Named("daily")))
		require.NoError(t, p.Report(t.Context(), left(5)))
		require.Equal(t, int64(1000), status(t, p, "daily").Remaining)
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Remaining: policies.Reported(5), Reset: 30 * time.Second}))
		require.Equal(t, int64(5), status(t, p, "daily").Remaining)
		time.Sleep(30 * time.Second)
		require.Equal(t, int64(1000), status(t, p, "daily").Remaining)
	})
}
