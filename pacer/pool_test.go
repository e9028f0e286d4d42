package pacer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
)

// uneven is a policy by which four keys have limits of their own: 77 a second in all.
func uneven() policies.Policy {
	return policies.PerSecond(40).Per("key").
		Override(policies.PerSecond(20), "b").Override(policies.PerSecond(10), "c").Override(policies.PerSecond(7), "d")
}

func newPool(t *testing.T, p *pacer.Pacer, all ...pacer.Credential) *pacer.Pool {
	t.Helper()
	pool, err := p.Pool(all, "key")
	require.NoError(t, err)
	return pool
}

// A goer counts calls by key.
type goer struct {
	mu   sync.Mutex
	went map[string][]time.Duration
}

func (g *goer) goes(key string, at time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.went == nil {
		g.went = make(map[string][]time.Duration)
	}
	g.went[key] = append(g.went[key], at)
}

// spend has callers make calls by the keys of a pool, one after the other, until the context ends.
func (g *goer) spend(ctx context.Context, calls *sync.WaitGroup, pool *pacer.Pool, callers int, began time.Time, opts ...pacer.Option) {
	for range callers {
		calls.Go(func() {
			for {
				r, err := pool.Acquire(ctx, opts...)
				if err != nil {
					return
				}
				g.goes(r.Credential(), time.Since(began))
			}
		})
	}
}

// count returns how many calls went by a key from one time until another.
func (g *goer) count(key string, from, to time.Duration) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, at := range g.went[key] {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

// While calls wait, every key of a pool is used for all that it admits, by four processes together, and for no more.
func TestAPoolUsesAllThatItsKeysAdmit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, began := memstore.New(), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var all goer
		var calls sync.WaitGroup
		for range 4 {
			p := newPacer(t, pacer.Config{Upstream: "api", Store: shared, Policies: []policies.Policy{uneven()}})
			all.spend(ctx, &calls, newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}...), 20, began)
		}
		calls.Wait()
		for key, rate := range map[string]int{"a": 40, "b": 20, "c": 10, "d": 7} {
			for at := 0 * time.Second; at < 29*time.Second; at += 500 * ms {
				n := all.count(key, at, at+time.Second)
				require.InDelta(t, rate, n, 1, "%s at %v", key, at)
			}
			require.GreaterOrEqual(t, all.count(key, 0, 30*time.Second)*1000, 30*rate*985, key)
		}
	})
}

// No process uses a key that was left until its time is over, even for calls that had a slot by it.
func TestAKeyIsLeftByAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, began := memstore.New(), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		var all goer
		var calls sync.WaitGroup
		var pools []*pacer.Pool
		for range 3 {
			p := newPacer(t, pacer.Config{Upstream: "api", Store: shared, Policies: []policies.Policy{uneven()}})
			pool := newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}...)
			pools = append(pools, pool)
			all.spend(ctx, &calls, pool, 30, began)
		}
		time.Sleep(10*time.Second + 3*ms)
		require.NoError(t, pools[1].Leave(ctx, "a", 20*time.Second))
		calls.Wait()
		const left, back = 10*time.Second + 3*ms, 30*time.Second + 3*ms
		require.Zero(t, all.count("a", left, back))
		for _, key := range []string{"b", "c", "d"} {
			require.InDelta(t, all.count(key, 0, 10*time.Second), all.count(key, 15*time.Second, 25*time.Second), 1, key)
		}
		require.InDelta(t, 40, all.count("a", back, back+time.Second), 1)
	})
}

// Keys of one account share its limits. When one of them is left, the others go on; when all are, the account is paused.
func TestKeysOfAnAccountShareItsLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.PerSecond(10).Per("key")}})
		pool := newPool(t, p, pacer.Credential{ID: "one", Account: "us", Weight: 3}, pacer.Credential{ID: "two", Account: "us"}, pacer.Credential{ID: "three"})
		went := make(map[string]int)
		spend := func() {
			clear(went)
			for began := time.Now(); time.Since(began) < 100*time.Second; {
				r, err := pool.Acquire(t.Context())
				require.NoError(t, err)
				went[r.Credential()]++
			}
		}
		spend()
		require.InDelta(t, 1000, went["one"]+went["two"], 2)
		require.InDelta(t, 750, went["one"], 60)
		require.InDelta(t, 1000, went["three"], 2)

		require.NoError(t, pool.Leave(t.Context(), "one", 101*time.Second))
		spend()
		require.Zero(t, went["one"])
		require.InDelta(t, 1000, went["two"], 2)

		require.NoError(t, pool.Leave(t.Context(), "one", time.Hour))
		require.NoError(t, pool.Leave(t.Context(), "two", 200*time.Second))
		spend()
		require.Zero(t, went["one"]+went["two"])
		require.InDelta(t, 1000, went["three"], 2)
		time.Sleep(100 * time.Second)
		spend()
		require.Zero(t, went["one"])
		require.InDelta(t, 1000, went["two"], 2)
	})
}

// Keys that may go as soon are used by their weights.
func TestKeysAreUsedByTheirWeights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.PerSecond(1000).Burst(100).Per("key")}})
		pool := newPool(t, p, pacer.Credential{ID: "a", Weight: 8}, pacer.Credential{ID: "b"}, pacer.Credential{ID: "c"})
		went := make(map[string]int)
		for range 2000 {
			r, err := pool.Acquire(t.Context())
			require.NoError(t, err)
			went[r.Credential()]++
			time.Sleep(10 * ms)
		}
		require.InDelta(t, 1600, went["a"], 120, "%v", went)
		require.InDelta(t, 200, went["b"], 90, "%v", went)
	})
}

// Calls of a context stick to a key, although others could go sooner, until one is made while it is left or paused. After a pause without a
// call, they stick to it again.
func TestCallsStickToAKey(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"memory": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				config := pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.Fixed(20, 2*time.Second).Per("key")}}
				if shared {
					config.Store = newRemote(1)
				}
				p := newPacer(t, config)
				defer closing(t, p)
				pool := newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}}...)
				ctx := pool.Stick(t.Context())
				goes := func(calls int) (key string) {
					for range calls {
						r, err := pool.Acquire(ctx)
						require.NoError(t, err)
						key = cmp.Or(key, r.Credential())
						require.Equal(t, key, r.Credential())
					}
					return key
				}
				pause := func(key string, d time.Duration) {
					require.NoError(t, p.Report(ctx, policies.Feedback{Wait: d}, pacer.Scope("key", key)))
				}
				first := goes(20)
				pause(first, time.Second)
				time.Sleep(2 * time.Second)
				began := time.Now()
				require.Equal(t, first, goes(21), "no call was made meanwhile")
				require.Equal(t, 2*time.Second, time.Since(began), "the others could go sooner")
				require.NoError(t, pool.Leave(ctx, first, time.Minute))
				second := goes(1)
				pause(second, time.Hour)
				third := goes(1)
				require.Len(t, map[string]bool{first: true, second: true, third: true}, 3)
				time.Sleep(2 * time.Minute)
				require.Equal(t, third, goes(20), "the one that it got then")
			})
		})
	}
}

// The cost of a call by a key is settled, reported and given back by the limits of that key.
func TestWhatAKeySpendsIsItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tokens := policies.Fixed(1000, time.Hour).Per("key").Named("tokens")
		shared := policies.Fixed(100, time.Hour).Named("all")
		p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{tokens, shared, policies.Fixed(50, time.Hour).Per("key").Named("images")}})
		pool := newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}}...)
		left := func(key, policy string) int64 {
			st, err := p.Status(t.Context(), pacer.Scope("key", key))
			require.NoError(t, err)
			for _, one := range st.Policies {
				if one.Policy.Name() == policy {
					return one.Remaining
				}
			}
			t.Fatalf("no policy %s", policy)
			return 0
		}
		r, err := pool.Acquire(t.Context(), pacer.EstimateOf("tokens", 300, policies.Learned{}), pacer.CostOf("images", 0))
		require.NoError(t, err)
		key, other := r.Credential(), "a"
		if key == other {
			other = "b"
		}
		require.EqualValues(t, 700, left(key, "tokens"))
		require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "tokens", N: 450}, policies.Cost{Policy: "images", N: 2}))
		require.EqualValues(t, 550, left(key, "tokens"))
		require.EqualValues(t, 48, left(key, "images"))
		require.EqualValues(t, 1000, left(other, "tokens"))
		require.EqualValues(t, 50, left(other, "images"))
		require.EqualValues(t, 99, left(key, "all"))

		require.NoError(t, r.Report(t.Context(), policies.Feedback{Policies: []string{"tokens"}, Wait: time.Minute, Refused: true, Certain: true}))
		for range 5 {
			r, err := pool.Acquire(t.Context())
			require.NoError(t, err)
			require.Equal(t, other, r.Credential(), "the other one is paused")
		}
	})
}

// Calls that wait go by another key when theirs is paused, and by others when the policies change. None of them fails.
func TestWaitingCallsGoByOtherKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.PerSecond(1).Per("key")}})
		pool := newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}}...)
		began := time.Now()
		var all goer
		var calls sync.WaitGroup
		for range 40 {
			calls.Go(func() {
				r, err := pool.Acquire(t.Context())
				require.NoError(t, err)
				all.goes(r.Credential(), time.Since(began))
			})
		}
		time.Sleep(2500 * ms)
		require.NoError(t, pool.Leave(t.Context(), "b", 3*time.Second))
		time.Sleep(2 * time.Second)
		require.Equal(t, 8, all.count("a", 0, time.Minute)+all.count("b", 0, time.Minute)) // 3 and 3, and then two of a
		require.NoError(t, p.Declare(policies.PerSecond(100).Per("key")))
		calls.Wait()
		require.Less(t, time.Since(began), 5*time.Second)
		require.Zero(t, all.count("b", 2500*ms, 5500*ms))
	})
}

// A call that has a slot by a key gives it up for one by another key when the first is paused.
func TestACallWithASlotGoesByAnotherKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.Every(time.Second).Per("key").Override(policies.Every(10*time.Second), "slow")}})
		pool := newPool(t, p, []pacer.Credential{{ID: "slow"}, {ID: "fast"}}...)
		for range 2 {
			_, err := pool.Acquire(t.Context())
			require.NoError(t, err)
		}
		began := time.Now()
		var calls sync.WaitGroup
		calls.Go(func() {
			r, err := pool.Acquire(t.Context(), pacer.MaxWait(time.Minute))
			require.NoError(t, err)
			require.Equal(t, "slow", r.Credential())
		})
		time.Sleep(500 * ms)
		require.NoError(t, pool.Leave(t.Context(), "fast", time.Hour)) // by which it would go in half a second
		calls.Wait()
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}

// A call that one key never admits goes by those that do; one that none admits is refused for good.
func TestACallIsNotForKeysThatNeverAdmitIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{
			policies.PerSecond(10).Burst(5).Per("key").Override(policies.PerSecond(10).Burst(20), "big"),
		}})
		pool := newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "big"}, {ID: "c"}}...)
		_, err := pool.Acquire(t.Context()) // by any of them
		require.NoError(t, err)
		for range 5 {
			r, err := pool.Acquire(t.Context(), pacer.Cost(10))
			require.NoError(t, err)
			require.Equal(t, "big", r.Credential())
		}
		_, err = pool.Acquire(t.Context(), pacer.Cost(21))
		require.ErrorIs(t, err, pacer.TooCostly)
		require.Error(t, err)
	})
}

// A pool refuses a call that no key admits in time, and names the key by which it could go soonest.
func TestAPoolRefusesWhatIsTooFar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.Every(time.Hour).Per("key").Override(policies.Every(time.Minute), "b")}})
		pool := newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}}...)
		for range 3 {
			_, err := pool.Acquire(t.Context())
			require.NoError(t, err)
		}
		_, err := pool.Acquire(t.Context(), pacer.MaxWait(30*time.Second))
		limit, ok := errors.AsType[*pacer.LimitError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "key=b", limit.Scope)
		require.Equal(t, time.Minute, retryAfter(limit))
	})
}

// Slots that a process granted itself go back while its store is away, and when it is back, each to its own key.
func TestAPoolGivesLocalSlotsBack(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]error{"away": errBroken, "back": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRemote(1)
				p := away(t, r, pacer.PaceLocally, policies.Fixed(20, time.Hour).Per("key"), policies.PerSecond(10).Named("all"))
				defer closing(t, p)
				pool := newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}}...)
				left := func() (all []int64) {
					for _, key := range []string{"a", "b", "c"} {
						st, err := p.Status(t.Context(), pacer.Scope("key", key))
						require.NoError(t, err)
						all = append(all, st.Policies[0].Remaining)
					}
					return all
				}
				require.Equal(t, []int64{20, 20, 20}, left())
				r.set(errBroken, 0)
				var all []*pacer.Reservation
				for range 9 {
					one, err := pool.Reserve(t.Context())
					require.NoError(t, err)
					all = append(all, one)
				}
				var calls sync.WaitGroup
				var went goer
				for range 9 {
					calls.Go(func() {
						one, err := pool.Acquire(t.Context())
						require.NoError(t, err)
						went.goes(one.Credential(), 0)
					})
				}
				synctest.Wait()
				r.set(store, 0)
				calls.Wait()
				back()
				for _, one := range all {
					require.NoError(t, one.NotUsed(t.Context()))
				}
				r.set(nil, 0)
				back()
				want := []int64{20, 20, 20}
				for i, key := range []string{"a", "b", "c"} {
					want[i] -= int64(len(went.went[key]))
				}
				require.Equal(t, want, left())
			})
		})
	}
}

// If the policies are observed, calls go by all keys, and each key's limits are predicted.
func TestAPoolIsObserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.Every(time.Hour).Per("key").Observed()}})
		pool := newPool(t, p, []pacer.Credential{{ID: "a"}, {ID: "b"}}...)
		went := make(map[string]int)
		for range 100 {
			key, err := pacer.Do(t.Context(), pool, func(_ context.Context, r *pacer.Reservation) (string, policies.Reading, error) {
				return r.Credential(), policies.Reading{}, nil
			})
			require.NoError(t, err)
			went[key]++
		}
		require.Len(t, went, 2)
	})
}

// A booking is by the key that may be used soonest, and is redeemed by that key in any process, once, at no other key's cost.
func TestAPoolBooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		limits := []policies.Policy{policies.AtMost(1, time.Second).Skew(100 * ms).Per("key"), policies.PerSecond(100).Named("all")}
		books := newPool(t, newPacer(t, pacer.Config{Upstream: "api", Store: shared, Policies: limits}), []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}}...)
		redeems := newPool(t, newPacer(t, pacer.Config{Upstream: "api", Store: shared, Policies: limits}), []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}}...)
		began := time.Now()
		var all goer
		var jobs sync.WaitGroup
		for range 12 {
			tok, wait, err := books.Book(t.Context())
			require.NoError(t, err)
			jobs.Go(func() {
				time.Sleep(wait)
				r, err := redeems.Redeem(t.Context(), tok)
				for later := (*pacer.LimitError)(nil); errors.As(err, &later); r, err = redeems.Redeem(t.Context(), tok) {
					time.Sleep(later.Wait)
				}
				require.NoError(t, err)
				all.goes(r.Credential(), time.Since(began))
				_, err = redeems.Redeem(t.Context(), tok)
				require.ErrorIs(t, err, pacer.ErrSpent)
			})
		}
		jobs.Wait()
		require.Less(t, time.Since(began), 10*time.Second) // those that were due at once moved behind the others
		went := 0
		for _, key := range []string{"a", "b", "c"} { // a booking that moves is by another key, perhaps
			went += all.count(key, 0, time.Hour)
			for second := range 10 {
				from := time.Duration(second) * time.Second
				require.LessOrEqual(t, all.count(key, from, from+time.Second), 1, key)
			}
		}
		require.Equal(t, 12, went)

		tok, _, err := books.Pacer().Book(t.Context(), pacer.Scope("key", "of nobody"))
		require.NoError(t, err)
		_, err = redeems.Redeem(t.Context(), tok)
		require.ErrorIs(t, err, pacer.BadToken)
		require.ErrorContains(t, err, "by none of the pool's credentials")
		_, err = redeems.Redeem(t.Context(), "no token")
		require.ErrorIs(t, err, pacer.BadToken)
		require.NoError(t, books.Pacer().CancelBooking(t.Context(), tok))

		tok, _, err = books.Book(t.Context())
		require.NoError(t, err)
		require.NoError(t, books.Pacer().CancelBooking(t.Context(), tok))
		_, err = redeems.Redeem(t.Context(), tok)
		require.ErrorIs(t, err, pacer.ErrSpent)
	})
}

// If a pool has several scopes, a call has those that it carries, with the credential as their value, or else all.
func TestAPoolOfSeveralScopes(t *testing.T) {
	t.Parallel()
	p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{
		policies.Every(time.Hour).Burst(1).Per("core").Optional().Named("core"), policies.Every(time.Hour).Burst(2).Per("search").Optional().Named("search"),
	}})
	pool, err := p.Pool([]pacer.Credential{{ID: "a"}, {ID: "b"}}, "core", "search")
	require.NoError(t, err)
	goes := func(opts ...pacer.Option) (n int) {
		for {
			if _, err := pool.Acquire(t.Context(), append(opts, pacer.MaxWait(0))...); err != nil {
				require.ErrorIs(t, err, pacer.ErrNotYet)
				return n
			}
			n++
		}
	}
	require.Equal(t, 4, goes(pacer.Scope("search", "of the request")))
	require.Equal(t, 2, goes(pacer.Scope("core", "of the request")))
	require.Zero(t, goes())
	st, err := p.Status(t.Context(), pacer.Scope("core", "of the request"))
	require.NoError(t, err)
	require.EqualValues(t, 1, st.Policies[0].Remaining, "nothing is charged to what the request carries")
}

// Policies may have other scopes beside that of the credential, such as the model: then each credential has a limit for each value. A
// credential is left for all of them. Calls without such a value go by any credential in use.
func TestAPoolOfPoliciesWithOtherScopes(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"alone": false, "a fleet": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				config := pacer.Config{Upstream: "api", Policies: []policies.Policy{
					policies.PerMinute(60).Burst(3).Per("key", "model").Optional().Named("requests"),
				}}
				if shared {
					config.Store = memstore.New()
				}
				one := newPacer(t, config)
				pool := newPool(t, one, pacer.Credential{ID: "a"}, pacer.Credential{ID: "b"}, pacer.Credential{ID: "c"})
				goes := func(pool *pacer.Pool, opts ...pacer.Option) map[string]int {
					went := make(map[string]int)
					for range 300 {
						r, err := pool.Acquire(t.Context(), append(opts, pacer.MaxWait(0))...)
						if err != nil {
							require.ErrorIs(t, err, pacer.ErrNotYet)
							break
						}
						went[r.Credential()]++
					}
					return went
				}
				require.Equal(t, map[string]int{"a": 3, "b": 3, "c": 3}, goes(pool, pacer.Scope("model", "large")))
				require.Equal(t, map[string]int{"a": 3, "b": 3, "c": 3}, goes(pool, pacer.Scope("model", "small")))
				bare := goes(pool)
				require.Len(t, bare, 3, "no limit binds calls without a model")
				require.Equal(t, 300, bare["a"]+bare["b"]+bare["c"])

				time.Sleep(time.Minute)
				require.NoError(t, pool.Leave(t.Context(), "b", time.Minute))
				if shared {
					two := newPacer(t, config)
					pool = newPool(t, two, pacer.Credential{ID: "a"}, pacer.Credential{ID: "b"}, pacer.Credential{ID: "c"})
					require.NoError(t, two.Wait(t.Context())) // the first answer brings the allowances
				}
				require.Equal(t, map[string]int{"a": 3, "c": 3}, goes(pool, pacer.Scope("model", "large")))
				require.Equal(t, map[string]int{"a": 3, "c": 3}, goes(pool, pacer.Scope("model", "never called before")))
				require.Len(t, goes(pool), 2)
				st, err := one.Status(t.Context(), pacer.Scope("key", "b"), pacer.Scope("model", "large"))
				require.NoError(t, err)
				require.Equal(t, []pacer.Allowance{{Limit: "credential", Scope: "key=b", For: time.Minute, Source: "Pool.Leave"}}, st.Allowances)

				time.Sleep(2 * time.Minute)
				require.Equal(t, map[string]int{"a": 3, "b": 3, "c": 3}, goes(pool, pacer.Scope("model", "large")))
			})
		})
	}
}

// A lane has its part of each key's rate, and may use what others leave, in a pool as without one: calls in no lane hardly wait although
// two processes keep the lane full.
func TestTheLanesOfAPool(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]bool{"alone": false, "beside others": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared, began := memstore.New(), time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var all goer
				var calls sync.WaitGroup
				var longest time.Duration
				of := policies.PerSecond(20).Burst(2).Per("key").Lane("batch", 80)
				for range 2 {
					p := newPacer(t, pacer.Config{Upstream: "api", Store: shared, MaxWait: time.Hour, Policies: []policies.Policy{of}})
					pool := newPool(t, p, pacer.Credential{ID: "a"}, pacer.Credential{ID: "b"}, pacer.Credential{ID: "c"})
					all.spend(ctx, &calls, pool, 50, began, pacer.Lane("batch"))
					if !busy {
						continue
					}
					calls.Go(func() {
						for ; ctx.Err() == nil; time.Sleep(200 * ms) {
							asked := time.Now()
							r, err := pool.Acquire(context.WithoutCancel(ctx))
							require.NoError(t, err)
							all.goes(r.Credential(), time.Since(began))
							all.mu.Lock()
							longest = max(longest, time.Since(asked))
							all.mu.Unlock()
						}
					})
				}
				calls.Wait()
				const from, to = 5 * time.Second, 29 * time.Second
				used := 0
				for _, key := range []string{"a", "b", "c"} {
					for at := from; at < to; at += 500 * ms {
						require.LessOrEqual(t, all.count(key, at, at+time.Second), 20+2, "%s at %v", key, at)
					}
					used += all.count(key, from, to)
				}
				require.GreaterOrEqual(t, used, 97*60*24/100, "three keys of 20 a second")
				if busy {
					require.LessOrEqual(t, longest, 200*ms)
				}
			})
		})
	}
}

// A party has its part of each key's window, and a call is settled with the key that it went by.
func TestTheFloorsOfAPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{
			policies.Daily(100, time.UTC).Per("key").Reserve("support", 30).Named("own"), policies.Daily(1000, time.UTC).Named("all"),
		}})
		pool := newPool(t, p, pacer.Credential{ID: "a"}, pacer.Credential{ID: "b"})
		goes := func(opts ...pacer.Option) (n int) {
			for ; ; n++ {
				r, err := pool.Acquire(t.Context(), append(opts, pacer.Cost(10), pacer.MaxWait(0))...)
				if err != nil {
					require.ErrorIs(t, err, pacer.ErrNotYet)
					return n
				}
				require.NoError(t, r.Settle(t.Context(), policies.Cost{Policy: "own", N: 5}))
			}
		}
		require.Equal(t, 2*13, goes(), "ten are charged first, and thirty are kept: at 65 the next one would have to leave less")
		require.Equal(t, 2*5, goes(pacer.Lane("support")), "five are kept for calls in no party")

		time.Sleep(24 * time.Hour)
		books := func(opts ...pacer.BookOption) (n int) {
			for ; ; n++ {
				if _, _, err := pool.Book(t.Context(), append(opts, pacer.Cost(10), pacer.MaxWait(0))...); err != nil {
					require.ErrorIs(t, err, pacer.ErrNotYet)
					return n
				}
			}
		}
		require.Equal(t, 2*7, books(), "a booking leaves what is kept, too")
		require.Equal(t, 2*3, books(pacer.Lane("support")))
	})
}

// Pool returns an error for each mistake.
func TestAPoolThatIsWrong(t *testing.T) {
	t.Parallel()
	p := newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{
		policies.PerSecond(10).Per("key").Named("own"), policies.PerSecond(10).Per("tenant", "user").Named("other"),
	}})
	with := func(other policies.Policy) *pacer.Pacer {
		return newPacer(t, pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.PerSecond(10).Per("key"), other}})
	}
	fair, fairPermits := with(policies.PerSecond(10).Fair("tenant")), with(policies.InFlight(3).Fair("tenant"))
	many := make([]pacer.Credential, 257)
	for i := range many {
		many[i].ID = fmt.Sprint("key", i)
	}
	for name, c := range map[string]struct {
		pacer   *pacer.Pacer
		scope   string
		all     []pacer.Credential
		reports string
	}{
		"a scope without policies": {p, "nothing", []pacer.Credential{{ID: "a"}}, `no policy of upstream "api" is Per("nothing")`},
		"no scope":                 {p, "", []pacer.Credential{{ID: "a"}}, "Pool"},
		"no credentials":           {p, "key", nil, "from 1 to 256"},
		"too many":                 {p, "key", many, "from 1 to 256"},
		"an empty ID":              {p, "key", []pacer.Credential{{ID: "a"}, {ID: ""}}, "Credential.ID"},
		"an ID twice":              {p, "key", []pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "a"}}, `Credential.ID is "a"`},
		"a weight":                 {p, "key", []pacer.Credential{{ID: "a", Weight: 101}}, "Credential.Weight"},
		"a negative weight":        {p, "key", []pacer.Credential{{ID: "a", Weight: -1}}, "Credential.Weight"},
		"fair shares":              {fair, "key", []pacer.Credential{{ID: "a"}}, "has fair shares"},
		"fair permits":             {fairPermits, "key", []pacer.Credential{{ID: "a"}}, "has fair shares"},
	} {
		_, err := c.pacer.Pool(c.all, c.scope)
		_, ok := errors.AsType[*pacer.ConfigError](err)
		require.True(t, ok, name)
		require.ErrorContains(t, err, c.reports, name)
	}
	pool := newPool(t, p, []pacer.Credential{{ID: "a"}}...)
	require.ErrorContains(t, pool.Leave(t.Context(), "b", time.Second), "is not a credential of the pool")
	require.ErrorContains(t, pool.Leave(t.Context(), "a", 0), "must be positive")
	require.NoError(t, p.Declare(policies.PerSecond(10).Per("key"), policies.InFlight(3).Fair("tenant")))
	_, err := pool.Acquire(t.Context())
	require.ErrorContains(t, err, "has fair shares")
}
