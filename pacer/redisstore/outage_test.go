package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// member is a Pacer with a client of its own, as another process would have. Only a server that is gone makes it pace locally,
// not one that is busy.
func member(t *testing.T, addr string, list ...policies.Policy) *pacer.Pacer {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	p, err := pacer.New(pacer.Config{Upstream: "test", Store: must(redisstore.New(rdb)), Policies: list, StoreTimeout: 2 * time.Second, Processes: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// left returns how much is left of the first policy by Status.
func left(t *testing.T, p *pacer.Pacer) int64 {
	t.Helper()
	s, err := p.Status(t.Context())
	require.NoError(t, err)
	return s.Policies[0].Remaining
}

// Redis comes back empty: a daily quota does not start afresh, no matter which process spent it.
func TestAQuotaOutlivesTheServersMemory(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*redistest.Server){
		"restart":  func(s *redistest.Server) { s.Restart() },
		"flushall": func(s *redistest.Server) { require.NoError(t, s.Client().FlushAll(t.Context()).Err()) },
		"eviction": func(s *redistest.Server) {
			require.NoError(t, s.Client().Del(t.Context(), "pacer:10:{test}", "pacer:10:{test}:daily").Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			var fleet []*pacer.Pacer
			for range 3 {
				fleet = append(fleet, member(t, server.Addr, policies.Daily(90, time.UTC)))
			}
			for i := range 60 {
				require.NoError(t, fleet[i%3].Wait(t.Context()))
			}
			acquainted(t, server.Client(), "test", 3)
			lose(server)
			require.Eventually(t, func() bool { return left(t, fleet[0]) == 30 }, patience, 50*time.Millisecond)
			for i := range 30 {
				require.NoError(t, fleet[i%3].Wait(t.Context()))
			}
			for _, p := range fleet { // processes that still pace locally have spent their shares, and report it in a moment
				require.Eventually(t, func() bool { return left(t, p) == 0 }, patience, 50*time.Millisecond)
				require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
			}
		})
	}
}

// Processes that remember do not undo an operator's reset, not even if the server loses everything afterwards.
func TestAResetStaysReset(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := member(t, server.Addr, policies.Daily(90, time.UTC)), member(t, server.Addr, policies.Daily(90, time.UTC))
	for range 30 {
		require.NoError(t, one.Wait(t.Context()))
		require.NoError(t, two.Wait(t.Context()))
	}
	require.NoError(t, fleet.Of(two).Reset(t.Context()))
	require.Equal(t, int64(90), left(t, one))
	require.NoError(t, one.Wait(t.Context()))
	require.NoError(t, two.Wait(t.Context()))
	acquainted(t, server.Client(), "test", 2)
	server.Restart()
	require.Eventually(t, func() bool { return left(t, one) == 88 }, patience, 50*time.Millisecond)
	require.Eventually(t, func() bool { return left(t, two) == 88 }, patience, 50*time.Millisecond)
	acquainted(t, server.Client(), "test", 2) // all have come back, and reported what they know
	require.Equal(t, int64(88), left(t, one), "nobody brings back what was reset")
}

// Processes forget only what an operator resets, resumes or sets: they still restore the rest to a server that loses everything.
func TestAResetForgetsNothingElse(t *testing.T) {
	t.Parallel()
	tenants := policies.Daily(50, time.UTC).Named("tenants").Per("tenant").Optional()
	acme := pacer.Scope("tenant", "acme")
	for name, intervene := range map[string]func(context.Context, *pacer.Pacer, *redis.Client) error{
		"resume": func(ctx context.Context, p *pacer.Pacer, _ *redis.Client) error { return fleet.Of(p).Resume(ctx) },
		"a limit that is set": func(ctx context.Context, p *pacer.Pacer, _ *redis.Client) error {
			return fleet.Of(p).SetLimit(ctx, "tenants", policies.Daily(70, time.UTC), 0, acme)
		},
		"the reset of another": func(ctx context.Context, _ *pacer.Pacer, rdb *redis.Client) error {
			l := store.Limit{Policy: "tenants", Scope: store.EscapeScope("acme"), Spec: tenants.Spec()}
			_, _, err := must(redisstore.New(rdb)).Report(ctx, store.Stack{Upstream: "test", Limits: []store.Limit{l}}, []store.Note{{Kind: store.NoteReset}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			fleet := []*pacer.Pacer{member(t, server.Addr, policies.Daily(90, time.UTC), tenants), member(t, server.Addr, policies.Daily(90, time.UTC), tenants)}
			for i := range 40 {
				require.NoError(t, fleet[i%2].Wait(t.Context(), acme))
			}
			acquainted(t, server.Client(), "test", 2)
			require.NoError(t, intervene(t.Context(), fleet[0], server.Client()))
			for _, p := range fleet { // each learns of it
				require.NoError(t, p.Wait(t.Context()))
			}
			acquainted(t, server.Client(), "test", 2) // and what it was, by the next heartbeat at the latest
			server.Restart()
			for _, p := range fleet {
				require.Eventually(t, func() bool { return left(t, p) == 48 }, patience, 50*time.Millisecond)
			}
			want := map[string]int64{"resume": 10, "a limit that is set": 10, "the reset of another": 50}
			require.Eventually(t, func() bool { // that a limit is set no more is known a moment later
				s, err := fleet[1].Status(t.Context(), acme)
				require.NoError(t, err)
				return s.Policies[1].Remaining == want[name]
			}, patience, 50*time.Millisecond)
		})
	}
}

// acquainted waits until each process of an upstream knows their number, and returns when that was: all are there, and each has reported
// once more.
func acquainted(t *testing.T, rdb redis.UniversalClient, upstream string, processes int) (since int64) {
	t.Helper()
	all := time.Time{}
	require.Eventually(t, func() bool {
		alive, err := rdb.ZRangeWithScores(t.Context(), "pacer:10:{"+upstream+"}/alive", 0, -1).Result()
		if err != nil || len(alive) < processes {
			return false
		}
		if all.IsZero() {
			all = time.Now()
		}
		return !slices.ContainsFunc(alive, func(z redis.Z) bool { return int64(z.Score) < all.Add(heartbeatTTL).UnixMicro() })
	}, patience, 20*time.Millisecond, "the processes know each other")
	return micros()
}

// heartbeatTTL is for how long a process is believed to be there after a heartbeat.
const heartbeatTTL = 10 * time.Second

// shiftable is a Store whose server's clock is off by what shift holds, in µs.
func shiftable(t *testing.T, rdb *redis.Client, shift *atomic.Int64) *redisstore.Store {
	t.Helper()
	return redisstore.NewAt(rdb, func() store.Instant { return store.Instant(time.Now().UnixMicro() + shift.Load()) })
}

// The server's clock steps forth and back by an hour, as when a machine with another clock takes over. Going forth forgets the charges of
// the rate: one burst goes at once. Going back makes no call wait for the hour: store time goes on.
func TestTheServersClockSteps(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	var shift atomic.Int64
	var fleet []*pacer.Pacer
	for range 2 {
		p, err := pacer.New(pacer.Config{
			Upstream: "clock", Store: shiftable(t, rdb, &shift), Jitter: pacer.NoJitter,
			Policies: []policies.Policy{policies.PerSecond(20).Burst(4), policies.Sliding(1000, time.Minute)},
		})
		require.NoError(t, err)
		defer p.Close()
		fleet = append(fleet, p)
	}
	went := callWhile(t, fleet, func(goneOnce func()) {
		for _, step := range []time.Duration{time.Hour, -time.Hour, -time.Hour, time.Hour} {
			goneOnce()
			shift.Add(step.Microseconds())
		}
		goneOnce()
	})
	took := went.last().Sub(went.began)
	// A rate of 20/s with a burst of 4; each of two processes can have one call more in flight when the clock goes forth, and
	// then there is one more burst.
	const burst, flying = 4, 8
	require.LessOrEqual(t, len(went.at), burst+int(took.Seconds()*20)+1+4*(burst+flying))
}

// goings are when the calls of a fleet in this process went.
type goings struct {
	began time.Time
	at    []time.Time
}

func (g *goings) last() time.Time { return g.at[len(g.at)-1] }

// callWhile makes calls of some Pacers, from four goroutines each, while something happens, which may wait until each goroutine has made
// one more call. No call has an error.
func callWhile(t *testing.T, fleet []*pacer.Pacer, meanwhile func(goneOnce func())) *goings {
	t.Helper()
	const goroutines = 4
	g := &goings{began: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	counts := make([]atomic.Int64, goroutines*len(fleet))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, p := range fleet {
		for j := range goroutines {
			wg.Go(func() {
				for ctx.Err() == nil {
					if err := p.Wait(ctx); err != nil {
						if ctx.Err() == nil {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					g.at = append(g.at, time.Now())
					mu.Unlock()
					counts[i*goroutines+j].Add(1)
				}
			})
		}
	}
	meanwhile(func() {
		t.Helper()
		// The second call from now on was requested after now: its process has seen what happened before.
		requested := make([]int64, len(counts))
		for i := range counts {
			requested[i] = counts[i].Load() + 2
		}
		for i := range counts {
			require.Eventually(t, func() bool { return counts[i].Load() >= requested[i] }, patience, 5*time.Millisecond, "every goroutine goes on")
		}
	})
	cancel()
	wg.Wait()
	slices.SortFunc(g.at, time.Time.Compare)
	return g
}

// killedLine is how many calls at least wait when the process dies, and killedSlots for how many of them it may hold slots: those of
// the longest reach, 2 s, at 100 a second, where the machine makes the way to the store so long; 40 ms as a rule.
const (
	killedLine  = 500
	killedSlots = 4 + 2*100
)

var killedPolicies = []policies.Policy{policies.PerSecond(100)}

// doze is a process whose calls sleep until it is killed.
func doze(addr string) error {
	store, err := redisstore.New(redis.NewClient(patient(addr, true)))
	if err != nil {
		return err
	}
	p, err := pacer.New(pacer.Config{Upstream: "test", Store: store, Policies: killedPolicies, MaxWait: pacer.Forever, StoreTimeout: patience})
	if err != nil {
		return err
	}
	var g errgroup.Group
	for range 2 * killedLine {
		g.Go(func() error { return p.Wait(context.Background()) })
	}
	return g.Wait()
}

// A process dies with a thousand calls in its queue: that costs the fleet the few slots that it held, and nothing else. No key is left
// without a TTL.
func TestAProcessIsKilledWithAThousandWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"=doze "+server.Addr)
	require.NoError(t, cmd.Start())
	rdb := server.Client()
	p, err := pacer.New(pacer.Config{Upstream: "test", Store: must(redisstore.New(rdb)), Policies: killedPolicies, MaxWait: pacer.Forever, StoreTimeout: patience})
	require.NoError(t, err)
	defer p.Close()
	tail := func() int64 {
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		return s.Policies[0].Backlog
	}
	require.Eventually(t, func() bool {
		f, err := fleet.Of(p).Snapshot(t.Context())
		return err == nil && slices.ContainsFunc(f.Processes, func(one fleet.Process) bool { return one.Waiting > killedLine })
	}, patience, 100*time.Millisecond, "many wait")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	before := tail()
	require.LessOrEqual(t, before, int64(killedSlots), "slots that it held")
	r, err := p.Reserve(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, r.Delay(), time.Duration(before+1)*time.Second/100, "who comes now stands behind that queue and nothing else")
	require.NoError(t, r.Wait(t.Context()))
	for range 10 {
		require.NoError(t, p.Wait(t.Context()))
	}
	keys, err := rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		require.NotEqual(t, -1*time.Nanosecond, rdb.PTTL(t.Context(), key).Val(), "key %s has no TTL", key) // it may be over by now
	}
	alive := func() int64 { return rdb.ZCard(t.Context(), "pacer:10:{test}/alive").Val() }
	require.NoError(t, p.Close())
	require.LessOrEqual(t, alive(), int64(1), "who closes leaves at once, and the dead when its heartbeat is over")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A store whose keys are in other hands, or that is not Redis, must not reveal the credentials that it was given.
func TestErrorsCarryNoCredential(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-passw0rd"
	server := redistest.Start(t)
	require.NoError(t, server.Client().ConfigSet(t.Context(), "requirepass", "other").Err())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "default", Password: secret})
	t.Cleanup(func() { _ = rdb.Close() })
	p := refuser(t, rdb, policies.PerSecond(1))
	err := p.Wait(t.Context())
	require.Error(t, err)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), secret)
	require.Contains(t, strings.ToUpper(err.Error()), "WRONGPASS")
}
