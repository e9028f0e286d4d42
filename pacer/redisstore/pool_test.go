package redisstore_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// pooledRates are the limits of four keys, 154 a second in all, and those of the policy that has them.
var pooledRates = map[string]int64{"a": 80, "b": 40, "c": 20, "d": 14}

func pooledPolicy() policies.Policy {
	exact := func(n int64) policies.Policy { return policies.AtMost(n, time.Second).Skew(0) }
	return exact(80).Per("key").Named("key").Override(exact(40), "b").Override(exact(20), "c").Override(exact(14), "d")
}

// However many keys there are, a call by the one that may be used soonest is one request, which runs one script: also if each key counts
// calls in flight, and if the call is queued because all permits are taken.
func TestACallByAnyOfSomeKeysIsOneScript(t *testing.T) {
	t.Parallel()
	program := scripts.New()
	for name, each := range map[string]policies.Policy{
		"rates": policies.Every(time.Hour).Per("key"), "permits": policies.InFlight(1).Per("key").Named("permits"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t).Client()
			all := make([]pacer.Credential, 256)
			for i := range all {
				all[i].ID = fmt.Sprint("key", i)
			}
			p := newPacer(t, rdb, each, policies.PerSecond(1000).Burst(1000))
			pool, err := p.Pool(all, "key")
			require.NoError(t, err)
			_, err = pool.Acquire(t.Context()) // which loads the script
			require.NoError(t, err)
			hash := redis.NewScript(program[scripts.Reserve]).Hash() // the process's heartbeat is another one
			count := func(all []command) (n int) {
				for _, c := range all {
					if c.name == "evalsha" && c.args[0] == hash {
						n++
					}
				}
				return n
			}
			stop := watch(t, rdb)
			seen := make(map[pacer.Credential]bool)
			for range 9 {
				r, err := pool.Acquire(t.Context())
				require.NoError(t, err)
				seen[pacer.Credential{ID: r.Credential()}] = true
			}
			require.Equal(t, 9, count(stop()))
			require.Len(t, seen, 9)
			spent, err := p.Pool(slices.Collect(maps.Keys(seen)), "key")
			require.NoError(t, err)
			stop = watch(t, rdb)
			_, err = spent.Reserve(t.Context(), pacer.MaxWait(pacer.Forever)) // its slot is far, or it is queued
			require.NoError(t, err)
			require.Equal(t, 1, count(stop()))
		})
	}
}

// Four processes use four uneven keys, beside a limit of all of them, for no more than any window admits. When one leaves a key, none uses
// it from then on, except calls that had their slots before.
func TestFourProcessesAndFourKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var mu sync.Mutex
	byKey := make(map[string][]outing)
	var pools []*pacer.Pool
	var calls sync.WaitGroup
	for process := range 4 {
		p := newPacer(t, server.Client(), pooledPolicy())
		pool, err := p.Pool([]pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}, "key")
		require.NoError(t, err)
		pools = append(pools, pool)
		for range 20 {
			calls.Go(func() {
				for range 4 {
					r, err := pool.Acquire(t.Context(), pacer.MaxWait(pacer.Forever))
					if err != nil {
						t.Error(err)
						return
					}
					slot, slack := inside.Slot(r)
					mu.Lock()
					byKey[r.Credential()] = append(byKey[r.Credential()], outing{
						Granted: 1, Slot: int64(slot), Slack: slack.Microseconds(), At: time.Now().UnixMicro(), process: process,
					})
					mu.Unlock()
				}
			})
		}
	}
	calls.Wait()
	for key, limit := range pooledRates {
		require.Empty(t, referee(byKey[key], rule{name: key, kind: anyWindow, n: limit, period: time.Second}), key)
	}

	require.NoError(t, pools[2].Leave(t.Context(), "a", time.Minute))
	paused := store.Instant(time.Now().UnixMicro()) // the server has the same clock
	for _, pool := range pools {
		for range 5 {
			calls.Go(func() {
				for range 5 {
					r, err := pool.Acquire(t.Context(), pacer.MaxWait(pacer.Forever))
					if err != nil {
						t.Error(err)
						return
					}
					if slot, _ := inside.Slot(r); r.Credential() == "a" && slot > paused {
						t.Errorf("a call goes by a key that was left, at %d, %v later", slot, slot.Sub(paused))
					}
				}
			})
		}
	}
	calls.Wait()
}

// Four processes make calls of random length by four uneven keys, each with so many permits: no key ever has more in flight.
func TestFourProcessesAndThePermitsOfFourKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limits := map[string]int{"a": 5, "b": 10, "c": 20, "d": 40}
	each := policies.InFlight(5).Per("key").Override(policies.InFlight(10), "b").Override(policies.InFlight(20), "c").Override(policies.InFlight(40), "d")
	var mu sync.Mutex
	running := make(map[string]int)
	var calls sync.WaitGroup
	for range 4 {
		p := newPacer(t, server.Client(), each)
		pool, err := p.Pool([]pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}, "key")
		require.NoError(t, err)
		for range 40 {
			calls.Go(func() {
				for range 4 {
					r, err := pool.Acquire(t.Context(), pacer.MaxWait(pacer.Forever))
					if err != nil {
						t.Error(err)
						return
					}
					key := r.Credential()
					mu.Lock()
					running[key]++
					if running[key] > limits[key] {
						t.Errorf("%d calls by key %s, want at most %d", running[key], key, limits[key])
					}
					mu.Unlock()
					time.Sleep(time.Duration(rand.Int64N(int64(100 * time.Millisecond)))) //realtime: it is how long the upstream takes
					mu.Lock()
					running[key]--
					mu.Unlock()
					r.Release()
				}
			})
		}
	}
	calls.Wait()
}

// A process without its store uses its share of each key, and gives back the rest.
func TestAPoolWithoutItsStore(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DisableIdentity: true, ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	backing, err := redisstore.New(rdb)
	require.NoError(t, err)
	p, err := pacer.New(pacer.Config{
		Upstream: "test", Store: backing, Policies: []policies.Policy{policies.Fixed(8, 100*time.Hour).Per("key")}, Processes: 4,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	pool, err := p.Pool([]pacer.Credential{{ID: "a"}, {ID: "b"}, {ID: "c"}}, "key")
	require.NoError(t, err)
	went := make(map[string]int)
	for range 6 {
		r, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		went[r.Credential()]++
	}
	require.Equal(t, map[string]int{"a": 2, "b": 2, "c": 2}, went)
	_, err = pool.Acquire(t.Context(), pacer.MaxWait(time.Hour))
	require.ErrorIs(t, err, pacer.ErrNotYet)
}
