package pacer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// unevenPermits are how many calls four keys allow at once, 75 in all, and permitsEach the policy that has them.
var unevenPermits = map[string]int{"a": 5, "b": 10, "c": 20, "d": 40}

func permitsEach() policies.Policy {
	return policies.InFlight(5).Per("key").Named("permits").
		Override(policies.InFlight(10), "b").Override(policies.InFlight(20), "c").Override(policies.InFlight(40), "d")
}

// A judge is an upstream that counts the calls of each key that are in flight, and notes when there were too many. It also notes when
// calls began.
type judge struct {
	limits map[string]int

	mu      sync.Mutex
	running map[string]int
	at      time.Time
	busy    time.Duration // of all calls, since it was asked for
	began   map[string][]time.Time
	tooMany []string
}

func newJudge(limits map[string]int) *judge {
	return &judge{limits: limits, running: make(map[string]int), began: make(map[string][]time.Time), at: time.Now()}
}

// runs counts a call in or out.
func (j *judge) runs(key string, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.advance()
	j.running[key] += n
	if n > 0 {
		j.began[key] = append(j.began[key], j.at)
	}
	if limit, known := j.limits[key]; !known || j.running[key] > limit || j.running[key] < 0 {
		j.tooMany = append(j.tooMany, fmt.Sprintf("%s: %d of %d at %v", key, j.running[key], limit, j.at))
	}
}

func (j *judge) advance() {
	now, all := time.Now(), 0
	for _, n := range j.running {
		all += n
	}
	j.busy, j.at = j.busy+time.Duration(all)*now.Sub(j.at), now
}

// used returns which part of all permits was in use since it was asked for last.
func (j *judge) used(length time.Duration) float64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.advance()
	all := 0
	for _, n := range j.limits {
		all += n
	}
	busy := j.busy
	j.busy = 0
	return float64(busy) / float64(time.Duration(all)*length)
}

// call has callers make calls of random length by the keys of a pool, one after the other, until the context ends.
func (j *judge) call(ctx context.Context, t *testing.T, calls *sync.WaitGroup, pool *pacer.Pool, callers int, length func() time.Duration) {
	t.Helper()
	for range callers {
		calls.Go(func() {
			for ctx.Err() == nil {
				r, err := pool.Acquire(ctx)
				if err != nil {
					require.Error(t, ctx.Err(), "%v", err)
					return
				}
				key := r.Credential()
				j.runs(key, 1)
				time.Sleep(length())
				j.runs(key, -1)
				r.Release()
			}
		})
	}
}

func randomly() time.Duration { return time.Duration(rand.Int64N(int64(200 * ms))) }

// While calls wait, the permits of all keys are in use by four processes, and never more: with a store beside them, and with one that is
// far away. When they end, nothing is left.
func TestThePermitsOfAPoolAreInUse(t *testing.T) {
	t.Parallel()
	for _, way := range []time.Duration{0, 5 * ms, 40 * ms} {
		for _, callers := range []int{20, 100} { // 80 callers, of 75 permits, or many more
			synctest.Test(t, func(t *testing.T) {
				f := newFarAway()
				ctx, cancel := context.WithCancel(t.Context())
				j := newJudge(unevenPermits)
				var calls sync.WaitGroup
				var ps []*pacer.Pacer
				for range 4 {
					var p *pacer.Pacer
					if way == 0 {
						p = newPacer(t, pacer.Config{Upstream: "api", Store: f.store, Policies: []policies.Policy{permitsEach()}, MaxWait: pacer.Forever})
					} else {
						p = f.pacer(t, permitsEach())
						r, err := p.Acquire(ctx, pacer.Scope("key", "a"))
						require.NoError(t, err)
						r.Release()
						synctest.Wait()
					}
					ps = append(ps, p)
				}
				f.goes(way)
				for _, p := range ps {
					j.call(ctx, t, &calls, newPool(t, p, pacer.Credentials("a", "b", "c", "d")...), callers, randomly)
				}
				time.Sleep(10 * time.Second)
				j.used(time.Second)
				time.Sleep(30 * time.Second)
				used := j.used(30 * time.Second)
				t.Logf("%v away, %d callers: %.1f %% of the permits were in use", way, 4*callers, 100*used)
				require.Empty(t, j.tooMany)
				least := 0.97
				if way == 40*ms && callers == 20 {
					least = 0.93 // no more than one caller of each process waits, while calls of others look for permits far away
				}
				require.GreaterOrEqual(t, used, least)
				cancel()
				calls.Wait()
				time.Sleep(4 * way)
				for key, n := range unevenPermits {
					st, err := ps[0].Status(t.Context(), pacer.Scope("key", key))
					require.NoError(t, err)
					require.EqualValues(t, n, st.Policies[0].Remaining, key)
					require.Zero(t, st.Policies[0].Queued, key)
				}
				for _, p := range ps {
					require.NoError(t, p.Close())
				}
			})
		}
	}
}

// rated are four keys of which some have more permits than calls of 100 ms need at their rates, and the others fewer.
var rated = map[string]struct{ rate, permits int }{"a": {20, 5}, "b": {200, 10}, "c": {100, 20}, "d": {800, 40}}

// admits returns how many calls a second of a mean length a key admits.
func admits(key string, mean time.Duration) float64 {
	return min(float64(rated[key].rate), float64(rated[key].permits)/mean.Seconds())
}

// A key may have a rate besides: whatever binds it, it is used for what it admits, and never for more.
func TestAPoolWithRatesAndPermits(t *testing.T) {
	t.Parallel()
	for _, way := range []time.Duration{0, 40 * ms} {
		synctest.Test(t, func(t *testing.T) {
			f := newFarAway()
			ctx, cancel := context.WithCancel(t.Context())
			rates := func(n int64) policies.Policy { return policies.AtMost(n, time.Second).Skew(25 * ms) }
			list := []policies.Policy{
				rates(20).Per("key").Named("rate").Override(rates(200), "b").Override(rates(100), "c").Override(rates(800), "d"),
				permitsEach(),
			}
			j := newJudge(unevenPermits)
			var calls sync.WaitGroup
			var ps []*pacer.Pacer
			for range 4 {
				var p *pacer.Pacer
				if way == 0 {
					p = newPacer(t, pacer.Config{Upstream: "api", Store: f.store, Policies: list, MaxWait: pacer.Forever})
				} else {
					p = f.pacer(t, list...)
					r, err := p.Acquire(ctx, pacer.Scope("key", "a"))
					require.NoError(t, err)
					r.Release()
					synctest.Wait()
				}
				ps = append(ps, p)
			}
			f.goes(way)
			for _, p := range ps {
				j.call(ctx, t, &calls, newPool(t, p, pacer.Credentials("a", "b", "c", "d")...), 60, randomly)
			}
			time.Sleep(40 * time.Second)
			cancel()
			calls.Wait()
			require.Empty(t, j.tooMany)
			went, most := 0.0, 0.0
			for key, began := range j.began {
				n := rated[key].rate
				for i := n; i < len(began); i++ {
					require.GreaterOrEqual(t, began[i].Sub(began[i-n]), time.Second, "%s: %d calls", key, n+1)
				}
				t.Logf("%v away: %s: %.1f calls a second, of %v", way, key, float64(len(began))/40, admits(key, 100*ms))
				went, most = went+float64(len(began))/40, most+admits(key, 100*ms)
			}
			t.Logf("%v away: %.1f %% of what the keys admit", way, 100*went/most)
			for _, p := range ps {
				require.NoError(t, p.Close())
			}
		})
	}
}
