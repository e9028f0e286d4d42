package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
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
	busy    time.Duration // of all calls, since the last look
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

// used returns which part of all permits was in use since its last call.
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

// saturatedFor returns for how long the pools of these tests are saturated.
func saturatedFor() time.Duration { return extent(6*time.Second, 30*time.Second) }

func randomly() time.Duration { return time.Duration(rand.Int64N(int64(200 * ms))) }

// While calls wait, the permits of all keys are in use by four processes, and never more: with a store beside them, and with one that is
// far away. When they end, nothing is left.
func TestThePermitsOfAPoolAreInUse(t *testing.T) {
	t.Parallel()
	length := saturatedFor()
	for _, way := range extent([]time.Duration{0, 40 * ms}, []time.Duration{0, 5 * ms, 40 * ms}) {
		for _, callers := range extent([]int{20}, []int{20, 100}) { // 80 callers, of 75 permits, or many more
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
					j.call(ctx, t, &calls, newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}...), callers, randomly)
				}
				time.Sleep(length / 3)
				j.used(time.Second)
				time.Sleep(length)
				used := j.used(length)
				t.Logf("%v away, %d callers: %.1f %% of the permits were in use", way, 4*callers, 100*used)
				require.Empty(t, j.tooMany)
				least := 0.97
				if way == 40*ms && callers == 20 {
					least = 0.91 // no more than one caller of each process waits, while calls of others look for permits far away
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

// rated are four keys. Some have more permits than calls of 100 ms need at their rates, and the others fewer.
var rated = map[string]struct{ rate, permits int }{"a": {20, 5}, "b": {200, 10}, "c": {100, 20}, "d": {800, 40}}

// admits returns how many calls a second of a mean length a key admits.
func admits(key string, mean time.Duration) float64 {
	return min(float64(rated[key].rate), float64(rated[key].permits)/mean.Seconds())
}

// A key may also have a rate: whichever limit binds it, it is used for all that it admits, and never for more.
func TestAPoolWithRatesAndPermits(t *testing.T) {
	t.Parallel()
	length := saturatedFor()
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
				j.call(ctx, t, &calls, newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}...), 60, randomly)
			}
			time.Sleep(length)
			cancel()
			calls.Wait()
			require.Empty(t, j.tooMany)
			went, most := 0.0, 0.0
			for key, began := range j.began {
				n := rated[key].rate
				for i := n; i < len(began); i++ {
					require.GreaterOrEqual(t, began[i].Sub(began[i-n]), time.Second, "%s: %d calls", key, n+1)
				}
				t.Logf("%v away: %s: %.1f calls a second, of %v", way, key, float64(len(began))/length.Seconds(), admits(key, 100*ms))
				went, most = went+float64(len(began))/length.Seconds(), most+admits(key, 100*ms)
			}
			t.Logf("%v away: %.1f %% of what the keys admit", way, 100*went/most)
			least := 0.95
			if way > 0 {
				least = 0.5 // calls that need slots get no permits passed on: 53 % without a pool
			}
			require.GreaterOrEqual(t, went/most, least)
			for _, p := range ps {
				require.NoError(t, p.Close())
			}
		})
	}
}

// oneEach is a pool of two keys, each with one permit.
func oneEach(t *testing.T, more ...policies.Policy) (*pacer.Pacer, *pacer.Pool) {
	t.Helper()
	p := newPacer(t, pacer.Config{Upstream: "api", Policies: append(more, policies.InFlight(1).Per("key").Named("permits")), MaxWait: pacer.Forever})
	return p, newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}}...)
}

// acquired returns two reservations by the two keys of a pool, by their keys.
func acquired(t *testing.T, pool *pacer.Pool) map[string]*pacer.Reservation {
	t.Helper()
	all := make(map[string]*pacer.Reservation)
	for range 2 {
		r, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		all[r.Credential()] = r
	}
	require.Len(t, all, 2)
	return all
}

// keyWaitedFor returns for which key of a pool a call waits.
func keyWaitedFor(t *testing.T, p *pacer.Pacer) (key, other string) {
	t.Helper()
	if statusOf(t, p, "permits", pacer.Scope("key", "a")).Queued > 0 {
		return "a", "b"
	}
	require.EqualValues(t, 1, statusOf(t, p, "permits", pacer.Scope("key", "b")).Queued)
	return "b", "a"
}

// A call waits for the permits of one key. If this process gives one of another key back, it goes by that at once, and if another process
// does, within a second.
func TestACallGoesByTheKeyWhosePermitIsFree(t *testing.T) {
	t.Parallel()
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			shared := memstore.New()
			of := func() (*pacer.Pacer, *pacer.Pool) {
				p := newPacer(t, pacer.Config{Upstream: "api", Store: shared, Policies: []policies.Policy{policies.InFlight(1).Per("key").Named("permits")}, MaxWait: pacer.Forever})
				return p, newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}}...)
			}
			p, pool := of()
			holder := pool
			if beside {
				_, holder = of()
			}
			held := acquired(t, holder)
			var call sync.WaitGroup
			var by string
			var at time.Time
			call.Go(func() {
				r, err := pool.Acquire(t.Context())
				require.NoError(t, err)
				by, at = r.Credential(), time.Now()
				r.Release()
			})
			synctest.Wait()
			time.Sleep(100 * ms)
			key, other := keyWaitedFor(t, p)
			began := time.Now()
			held[other].Release()
			call.Wait()
			require.Equal(t, other, by)
			if beside {
				require.Less(t, at.Sub(began), time.Second)
			} else {
				require.Zero(t, at.Sub(began))
			}
			held[key].Release()
			for _, key := range []string{"a", "b"} {
				st := statusOf(t, p, "permits", pacer.Scope("key", key))
				require.EqualValues(t, 1, st.Remaining)
				require.Zero(t, st.Queued)
			}
		})
	}
}

// A call that waits for a key which is left waits for another one, where it comes before those that came later.
func TestACallWaitsForAnotherKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, pool := oneEach(t)
		held := acquired(t, pool)
		var calls sync.WaitGroup
		var order []int
		var keys []string
		var mu sync.Mutex
		wait := func(i int) {
			calls.Go(func() {
				r, err := pool.Acquire(t.Context())
				require.NoError(t, err)
				mu.Lock()
				order, keys = append(order, i), append(keys, r.Credential())
				mu.Unlock()
				time.Sleep(time.Second)
				r.Release()
			})
			synctest.Wait()
			time.Sleep(ms)
		}
		wait(0)
		key, other := keyWaitedFor(t, p)
		wait(1) // for the other one
		require.NoError(t, pool.Leave(t.Context(), key, time.Hour))
		synctest.Wait()
		require.Zero(t, statusOf(t, p, "permits", pacer.Scope("key", key)).Queued)
		require.EqualValues(t, 2, statusOf(t, p, "permits", pacer.Scope("key", other)).Queued)
		held[key].Release() // it is left
		synctest.Wait()
		require.EqualValues(t, 2, statusOf(t, p, "permits", pacer.Scope("key", other)).Queued)
		began := time.Now()
		held[other].Release()
		calls.Wait()
		require.Equal(t, []int{0, 1}, order)
		require.Equal(t, []string{other, other}, keys)
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}

// A call stays in the queue of its key while its turn does not come sooner in another one.
func TestACallStaysInItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, pool := oneEach(t)
		acquired(t, pool)
		for range 10 { // which prefer keys at random
			ctx, cancel := context.WithCancel(t.Context())
			var call sync.WaitGroup
			call.Go(func() {
				_, err := pool.Acquire(ctx)
				require.ErrorIs(t, err, context.Canceled)
			})
			synctest.Wait()
			key, _ := keyWaitedFor(t, p)
			time.Sleep(5 * time.Second) // it retries meanwhile
			stays, _ := keyWaitedFor(t, p)
			require.Equal(t, key, stays)
			cancel()
			call.Wait()
		}
	})
}

// A call that sticks to a key waits for a permit of that, whatever others have.
func TestACallThatSticksWaitsForItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := oneEach(t)
		ctx := pool.Stick(t.Context())
		first, err := pool.Acquire(ctx)
		require.NoError(t, err)
		began := time.Now()
		time.AfterFunc(5*time.Second, first.Release)
		r, err := pool.Acquire(ctx)
		require.NoError(t, err)
		require.Equal(t, first.Credential(), r.Credential())
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

// While keys have permits, they are used by their weights, and all of them before a call waits.
func TestPermitsAreUsedByTheWeightsOfTheirKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.InFlight(100).Per("key")}})
		pool := newPool(t, p, pacer.Credential{ID: "a", Weight: 8}, pacer.Credential{ID: "b"}, pacer.Credential{ID: "c"})
		went := make(map[string]int)
		for range 2000 {
			r, err := pool.Acquire(t.Context())
			require.NoError(t, err)
			went[r.Credential()]++
			r.Release()
		}
		require.InDelta(t, 1600, went["a"], 120, "%v", went)
		require.InDelta(t, 200, went["b"], 90, "%v", went)
		clear(went)
		for range 300 {
			r, err := pool.Acquire(t.Context(), pacer.MaxWait(0))
			require.NoError(t, err)
			went[r.Credential()]++
		}
		require.Equal(t, map[string]int{"a": 100, "b": 100, "c": 100}, went)
		_, err := pool.Acquire(t.Context(), pacer.MaxWait(time.Second))
		require.ErrorIs(t, err, pacer.ErrNotYet)
		require.ErrorContains(t, err, "key=")
	})
}

// A call that gives up leaves all queues, and holds no permit.
func TestACallOfAPoolGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, pool := oneEach(t)
		held := acquired(t, pool)
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				_, err := pool.Acquire(ctx)
				require.ErrorIs(t, err, context.Canceled)
			})
		}
		synctest.Wait()
		require.EqualValues(t, 8, statusOf(t, p, "permits", pacer.Scope("key", "a")).Queued)
		require.EqualValues(t, 8, statusOf(t, p, "permits", pacer.Scope("key", "b")).Queued)
		cancel()
		calls.Wait()
		for key, r := range held {
			require.Zero(t, statusOf(t, p, "permits", pacer.Scope("key", key)).Queued)
			r.Release()
			require.EqualValues(t, 1, statusOf(t, p, "permits", pacer.Scope("key", key)).Remaining)
		}
	})
}

// A call's permit is that of its key while the call runs, and returns after its lease if the process does not renew it.
func TestThePermitOfAKeyIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFarAway()
		each := policies.InFlight(1).Lease(3 * time.Second).Per("key").Named("permits")
		p := f.pacer(t, each)
		held := acquired(t, newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}}...))
		other := f.pacer(t, each)
		pool := newPool(t, other, []pacer.Credential{{ID: "a"}, {ID: "b"}}...)
		time.Sleep(20 * time.Second)
		_, err := pool.Acquire(t.Context(), pacer.MaxWait(10*time.Second))
		require.ErrorIs(t, err, pacer.ErrNotYet)
		held["b"].Release()
		r, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, "b", r.Credential())
		closing(t, p) // with a call by the other one, whose permit nobody renews
		began := time.Now()
		r, err = pool.Acquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a", r.Credential())
		require.InDelta(t, 3*time.Second, time.Since(began), float64(time.Second))
		closing(t, other)
	})
}

// A booking is by the key that has the nearest slot, and takes a permit of that key when it is redeemed, or is refused until later.
func TestABookingTakesThePermitOfItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, more := range [][]policies.Policy{nil, {policies.PerSecond(10).Per("key")}} {
			p, pool := oneEach(t, more...)
			tok, wait, err := pool.Book(t.Context())
			require.NoError(t, err)
			require.Zero(t, wait)
			began := time.Now()
			r, err := pool.Redeem(t.Context(), tok)
			require.NoError(t, err)
			require.Zero(t, time.Since(began), "it has the slot that was booked")
			key, other := r.Credential(), "a"
			if key == other {
				other = "b"
			}
			require.Zero(t, statusOf(t, p, "permits", pacer.Scope("key", key)).Remaining)
			require.EqualValues(t, 1, statusOf(t, p, "permits", pacer.Scope("key", other)).Remaining)

			for range 100 { // until one is by the same key: a booking does not look at permits
				tok, _, err = pool.Book(t.Context(), pacer.NotBefore(time.Second))
				require.NoError(t, err)
				time.Sleep(1100 * ms)
				again, err := pool.Redeem(t.Context(), tok)
				if err == nil {
					require.Equal(t, other, again.Credential())
					again.Release()
					continue
				}
				later, ok := errors.AsType[*pacer.LimitError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, "permits", later.Policy)
				r.Release()
				again, err = pool.Redeem(t.Context(), tok)
				require.NoError(t, err)
				require.Equal(t, key, again.Credential())
				again.Release()
				r = nil
				break
			}
			require.Nil(t, r)
			require.NoError(t, p.Close())
		}
	})
}

// A nested call uses a key whose permit the outer call does not hold. If there is none, it fails, unless it shares one.
func TestCallsInsideCallsOfAPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, pool := oneEach(t)
		outer, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		ctx := outer.Context(t.Context())
		for range 20 {
			inner, err := pool.Acquire(ctx)
			require.NoError(t, err)
			require.NotEqual(t, outer.Credential(), inner.Credential())
			inner.Release()
		}
		inner, err := pool.Acquire(ctx)
		require.NoError(t, err)
		_, err = pool.Acquire(inner.Context(ctx))
		_, nested := errors.AsType[*pacer.LimitError](err)
		require.True(t, nested, "%v", err)
		shares, err := pool.Acquire(inner.Context(ctx), pacer.Nested())
		require.NoError(t, err)
		shares.Release()
		inner.Release()
		outer.Release()
		for _, key := range []string{"a", "b"} {
			require.EqualValues(t, 1, statusOf(t, p, "permits", pacer.Scope("key", key)).Remaining)
		}
	})
}

// Without its store, a process has its share of the permits of each key.
func TestThePermitsOfAPoolWithoutItsStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFarAway()
		var pools []*pacer.Pool
		var ps []*pacer.Pacer
		f.alive = 2
		for range 2 {
			p := f.pacer(t, policies.InFlight(4).Per("key").Named("permits"))
			ps, pools = append(ps, p), append(pools, newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}}...))
			r, err := pools[len(pools)-1].Acquire(t.Context())
			require.NoError(t, err)
			r.Release()
		}
		synctest.Wait()
		f.set(errors.New("away"), 0)
		went := make(map[string]int)
		for _, pool := range pools {
			for range 4 {
				r, err := pool.Acquire(t.Context())
				require.NoError(t, err)
				went[r.Credential()]++
			}
			_, err := pool.Acquire(t.Context(), pacer.MaxWait(time.Second))
			require.ErrorIs(t, err, pacer.ErrNotYet)
		}
		require.Equal(t, map[string]int{"a": 4, "b": 4}, went)
		f.set(nil, 0)
		back()
		for _, p := range ps {
			closing(t, p)
		}
	})
}

// Calls that wait when the policies change go by those that hold then. None of them fails.
func TestThePermitsOfAPoolChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, pool := oneEach(t)
		acquired(t, pool)
		went := make(map[string]int)
		var mu sync.Mutex
		var calls sync.WaitGroup
		for range 40 {
			calls.Go(func() {
				r, err := pool.Acquire(t.Context())
				require.NoError(t, err)
				mu.Lock()
				went[r.Credential()]++
				mu.Unlock()
			})
		}
		synctest.Wait()
		require.Empty(t, went)
		require.NoError(t, p.Declare(policies.InFlight(21).Per("key").Named("permits")))
		calls.Wait()
		require.Equal(t, map[string]int{"a": 20, "b": 20}, went)
	})
}
