package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// A quotaOf is an upstream that admits so many calls in any time of a length, or in any window of the clock, and says how many are left.
type quotaOf struct {
	limit   int
	period  time.Duration
	aligned bool
	spent   []time.Time // in order
}

// left returns how many calls are left.
func (q *quotaOf) left(now time.Time) int {
	from := now.Add(-q.period)
	if q.aligned {
		from = now.Truncate(q.period).Add(-1)
	}
	first, _ := slices.BinarySearchFunc(q.spent, from, func(a, b time.Time) int {
		if a.After(b) {
			return 1
		}
		return -1
	})
	return q.limit - (len(q.spent) - first)
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

// An upstream that says how much is left, and not when there is more, holds no fleet back beyond what it says: what others spend is believed
// for a quarter of an hour, then a call asks. Nearly all is used that others have left by then, and hardly a call is refused.
func TestWhatOthersLeaveIsUsed(t *testing.T) {
	t.Parallel()
	for _, aligned := range []bool{false, true} {
		for _, limit := range []int{1000, 10_000} {
			for _, every := range []int{1, 10} { // a reading on so many replies
				for seed := range uint64(3) {
					t.Run(fmt.Sprintf("aligned=%t %d every %d seed %d", aligned, limit, every, seed), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) { judgeOthers(t, aligned, limit, every, seed) })
					})
				}
			}
		}
	}
}

func judgeOthers(t *testing.T, aligned bool, limit, every int, seed uint64) {
	t.Helper()
	const period = 24 * time.Hour
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
	// What could be used: all that is left whenever a call is allowed to ask.
	best := 0
	for i, at := 0, begin; at.Before(begin.Add(period)); at = at.Add(15 * time.Minute) {
		for ; now+i < len(others) && others[now+i].Before(at); i++ {
			ideal.spend(others[now+i])
		}
		for ideal.spend(at) {
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
				require.LessOrEqual(t, limited.RetryAfter(), 15*time.Minute+time.Second, "after %v", time.Since(begin))
			}
			time.Sleep(min(limited.RetryAfter(), time.Until(end)))
			continue
		} else if errors.Is(err, context.Canceled) {
			return
		}
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
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
		if replies++; replies%every == 0 || f.Refused {
			f.Remaining = policies.Said(int64(api.left(time.Now())))
		}
		require.NoError(t, r.Report(t.Context(), f))
	}
	t.Logf("%d of %d went, %d were refused", went, best, refused)
	require.GreaterOrEqual(t, float64(went), 0.97*float64(best))
	require.LessOrEqual(t, float64(refused), max(1, 0.01*float64(went+refused)))
}
