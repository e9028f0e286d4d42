package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// A quotaOf is an upstream that admits so many calls in any time of a length, or in any window of the clock, and states how many are left.
type quotaOf struct {
	limit   int
	period  time.Duration
	aligned bool
	spent   []time.Time // in order
}

// left returns how many calls are left at an instant, of now or before.
func (q *quotaOf) left(at time.Time) int {
	from := at.Add(-q.period)
	if q.aligned {
		from = at.Truncate(q.period).Add(-1)
	}
	return q.limit - (q.until(at) - q.until(from))
}

// until returns how many calls were made up to an instant.
func (q *quotaOf) until(at time.Time) int {
	n, _ := slices.BinarySearchFunc(q.spent, at, func(a, b time.Time) int {
		if a.After(b) {
			return 1
		}
		return -1
	})
	return n
}

// spend makes a call, if there is one left.
func (q *quotaOf) spend(now time.Time) bool {
	if q.left(now) <= 0 {
		return false
	}
	q.spent = append(q.spent, now)
	return true
}

// othersOf are the times at which others would like to make calls: most of the limit in the period before begin, and less after that.
func othersOf(rng *rand.Rand, begin time.Time, q *quotaOf) (all []time.Time) {
	for range q.limit * 9 / 10 {
		all = append(all, begin.Add(-time.Duration(rng.Float64()*float64(q.period))))
	}
	for range q.limit * 3 / 10 {
		all = append(all, begin.Add(time.Duration(rng.Float64()*float64(q.period))))
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// An upstream that states how much is left, and not when there is more, holds no fleet back beyond that: the spending of others is believed
// for a quarter of an hour, then a call probes. Nearly all is used that others have left by then, and hardly a call is refused.
func TestWhatOthersLeaveIsUsed(t *testing.T) {
	t.Parallel()
	for _, aligned := range []bool{false, true} {
		for limit, seeds := range extent(map[int]uint64{1000: 2}, map[int]uint64{1000: 3, 10_000: 3, 100_000: 1}) {
			for _, every := range []int{1, 10} { // a reading on so many replies
				for seed := range seeds {
					t.Run(fmt.Sprintf("aligned=%t %d every %d seed %d", aligned, limit, every, seed), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) { judgeOthers(t, aligned, limit, every, seed, honest, 24*4*(every/10)) })
					})
				}
			}
		}
	}
}

// A reading is the allowance that an upstream states.
type reading func(api *quotaOf, rng *rand.Rand, now time.Time) int

func honest(api *quotaOf, _ *rand.Rand, now time.Time) int { return api.left(now) }

// Readings that are some seconds old, overtake each other or come from a cache cost no more than a refused call for each probe.
func TestWhatOthersLeaveIsUsedThoughReadingsAreLate(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]reading{
		"old": func(api *quotaOf, _ *rand.Rand, now time.Time) int { return api.left(now.Add(-3 * time.Second)) },
		"out of order": func(api *quotaOf, rng *rand.Rand, now time.Time) int {
			return api.left(now.Add(-time.Duration(rng.IntN(2000)) * ms))
		},
		"from a cache": func(api *quotaOf, _ *rand.Rand, now time.Time) int { return api.left(now.Truncate(5 * time.Second)) },
	} {
		for _, aligned := range []bool{false, true} {
			for _, limit := range extent([]int{1000}, []int{1000, 10_000}) {
				for seed := range extent[uint64](2, 3) {
					t.Run(fmt.Sprintf("%s aligned=%t %d seed %d", name, aligned, limit, seed), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) { judgeOthers(t, aligned, limit, 1, seed, late, 24*4) })
					})
				}
			}
		}
	}
}

// judgeOthers also allows for so many refused probes.
func judgeOthers(t *testing.T, aligned bool, limit, every int, seed uint64, reports reading, asks int) {
	t.Helper()
	const period, pace = 24 * time.Hour, 100 * ms
	rng := rand.New(rand.NewPCG(seed, 19))
	begin := time.Now()
	if !aligned {
		time.Sleep(7 * time.Hour)
		begin = time.Now()
	}
	policy := policies.Sliding(int64(limit), period)
	if aligned {
		policy = policies.Daily(int64(limit), time.UTC)
	}
	api, ideal := quotaOf{limit, period, aligned, nil}, quotaOf{limit, period, aligned, nil}
	others := othersOf(rng, begin, &api)
	now := 0
	for ; others[now].Before(begin); now++ {
		api.spend(others[now])
		ideal.spend(others[now])
	}
	// The most that could be used: all that is left whenever a call may probe, as far as the pace goes.
	best := 0
	for i, at := 0, begin; at.Before(begin.Add(period)); at = at.Add(15 * time.Minute) {
		for ; now+i < len(others) && others[now+i].Before(at); i++ {
			ideal.spend(others[now+i])
		}
		for n := 0; n < int(15*time.Minute/pace) && ideal.spend(at); n++ {
			best++
		}
	}
	p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policy.Named("daily")}, Jitter: pacer.NoJitter})
	require.NoError(t, err)
	defer closing(t, p)
	went, refused, replies := 0, 0, 0
	for end := begin.Add(period); time.Now().Before(end); {
		r, err := p.Acquire(t.Context(), pacer.Tracked())
		if limited, ok := errors.AsType[*pacer.LimitError](err); ok {
			if api.left(time.Now()) > 0 {
				require.LessOrEqual(t, retryAfter(limited), 15*time.Minute+time.Second, "after %v", time.Since(begin))
			}
			time.Sleep(min(retryAfter(limited), time.Until(end)))
			continue
		} else if errors.Is(err, context.Canceled) {
			return
		}
		require.NoError(t, err)
		time.Sleep(pace)
		for ; now < len(others) && others[now].Before(time.Now()); now++ {
			api.spend(others[now])
		}
		f := policies.Feedback{Policies: []string{"daily"}}
		if api.spend(time.Now()) {
			went++
		} else {
			refused++
			f.Refused = true
		}
		switch replies++; {
		case f.Refused: // which is never late
			f.Remaining = policies.Reported(0)
		case replies%every == 0:
			f.Remaining = policies.Reported(int64(reports(&api, rng, time.Now())))
		}
		require.NoError(t, r.Report(t.Context(), f))
	}
	t.Logf("%d of %d went, %d were refused", went, best, refused)
	require.GreaterOrEqual(t, float64(went), 0.97*float64(best))
	require.LessOrEqual(t, float64(refused), max(1, 0.01*float64(went+refused))+float64(asks))
}

// No more goes than the policy admits, whether readings state all as left or nothing: no reading frees what our own calls spent. A call
// still probes in time.
func TestNoReadingAdmitsMoreThanThePolicy(t *testing.T) {
	t.Parallel()
	const limit, period = 300, 24 * time.Hour
	for name, reports := range map[string]reading{
		"all of it": func(api *quotaOf, _ *rand.Rand, _ time.Time) int { return api.limit },
		"more":      func(api *quotaOf, _ *rand.Rand, now time.Time) int { return api.left(now) + 100 },
		"far more":  func(*quotaOf, *rand.Rand, time.Time) int { return math.MaxInt },
		"anything":  func(api *quotaOf, rng *rand.Rand, _ time.Time) int { return rng.IntN(2 * api.limit) },
	} {
		for _, aligned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s aligned=%t", name, aligned), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					policy := policies.Sliding(limit, period)
					if aligned {
						policy = policies.Daily(limit, time.UTC)
					}
					p := newPacer(t, pacer.Config{Policies: []policies.Policy{policy.Named("daily")}, Jitter: pacer.NoJitter})
					api, rng := quotaOf{limit, period, aligned, nil}, rand.New(rand.NewPCG(4, 19))
					for end := time.Now().Add(3 * period); time.Now().Before(end); {
						r, err := p.Acquire(t.Context(), pacer.Tracked())
						if limited, ok := errors.AsType[*pacer.LimitError](err); ok {
							if api.left(time.Now()) > limit/100 { // of what is left in the bucket that is over, a sliding window knows nothing
								require.LessOrEqual(t, retryAfter(limited), 15*time.Minute+time.Second)
							}
							time.Sleep(retryAfter(limited))
							continue
						}
						require.NoError(t, err)
						require.True(t, api.spend(time.Now()), "a call more than the limit")
						time.Sleep(100 * ms)
						require.NoError(t, r.Report(t.Context(), policies.Feedback{
							Policies: []string{"daily"}, Remaining: policies.Reported(int64(reports(&api, rng, time.Now()))),
						}))
					}
					require.GreaterOrEqual(t, len(api.spent), 3*limit*95/100)
				})
			})
		}
	}
}
