package redisstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// member is a Pacer with a client of its own, as another process would have.
func member(t *testing.T, addr string, list ...policies.Policy) *pacer.Pacer {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return newPacer(t, rdb, list...)
}

// left returns what Status says is left of the first policy.
func left(t *testing.T, p *pacer.Pacer) int64 {
	t.Helper()
	s, err := p.Status(t.Context())
	require.NoError(t, err)
	return s.Policies[0].Remaining
}

// Redis comes back empty: a daily quota does not start afresh, whoever spent it.
func TestAQuotaOutlivesTheServersMemory(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*redistest.Server){
		"restart":  func(s *redistest.Server) { s.Restart() },
		"flushall": func(s *redistest.Server) { require.NoError(t, s.Client().FlushAll(t.Context()).Err()) },
		"eviction": func(s *redistest.Server) {
			require.NoError(t, s.Client().Del(t.Context(), "pacer:{test}", "pacer:{test}:daily").Err())
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
			lose(server)
			require.Eventually(t, func() bool { return left(t, fleet[0]) == 30 }, 10*time.Second, 50*time.Millisecond)
			time.Sleep(time.Second) // everybody has come back, not the first one alone
			for i := range 30 {
				require.NoError(t, fleet[i%3].Wait(t.Context()))
			}
			for _, p := range fleet {
				require.ErrorIs(t, p.Allow(t.Context()), pacer.ErrNotYet)
			}
		})
	}
}

// An operator's reset is not undone by those who remember, not even if the server loses everything afterwards.
func TestAResetStaysReset(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := member(t, server.Addr, policies.Daily(90, time.UTC)), member(t, server.Addr, policies.Daily(90, time.UTC))
	for range 30 {
		require.NoError(t, one.Wait(t.Context()))
		require.NoError(t, two.Wait(t.Context()))
	}
	require.NoError(t, two.Reset(t.Context()))
	require.Equal(t, int64(90), left(t, one))
	require.NoError(t, one.Wait(t.Context()))
	require.NoError(t, two.Wait(t.Context()))
	server.Restart()
	require.Eventually(t, func() bool { return left(t, one) == 88 }, 10*time.Second, 50*time.Millisecond)
	time.Sleep(time.Second)
	require.Equal(t, int64(88), left(t, two))
}

// shiftable is a Store whose server's clock is off by what shift holds, in µs.
func shiftable(t *testing.T, rdb *redis.Client, shift *atomic.Int64) *redisstore.Store {
	t.Helper()
	return redisstore.NewAt(rdb, func() pacer.Instant { return pacer.Instant(time.Now().UnixMicro() + shift.Load()) })
}

// The server's clock steps forth and back by an hour, as it does when a machine with another clock takes over. Going forth
// forgets what is charged to the rate: one burst goes at once. Going back makes nobody wait for the hour to pass: store time
// goes on.
func TestTheServersClockSteps(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
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
	var mu sync.Mutex
	var went []time.Time
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range fleet {
		for range 4 {
			wg.Go(func() {
				for {
					if err := p.Wait(ctx); err != nil {
						var le *pacer.LimitError
						if ctx.Err() == nil {
							require.ErrorAs(t, err, &le)
							require.True(t, le.Deadline, "%v", err)
						}
						return
					}
					mu.Lock()
					went = append(went, time.Now())
					mu.Unlock()
				}
			})
		}
	}
	start := time.Now()
	for _, step := range []time.Duration{time.Hour, -time.Hour, -time.Hour, time.Hour} {
		time.Sleep(1200 * time.Millisecond)
		shift.Add(step.Microseconds())
	}
	wg.Wait()
	most, stall, last := 0, time.Duration(0), start
	for i, at := range went {
		n := 0
		for _, other := range went[i:] {
			if other.Sub(at) < time.Second {
				n++
			}
		}
		most, stall, last = max(most, n), max(stall, at.Sub(last)), at
	}
	t.Logf("%d calls in 6 s of 20/s, at most %d in a second, longest silence %v", len(went), most, stall)
	// A rate of 20/s with a burst of 4 admits 24 in a second; each of two processes can have one call more in flight when the
	// clock goes forth, and then there is one more burst.
	require.LessOrEqual(t, most, 24+4+8)
	require.Less(t, stall, 1500*time.Millisecond)
	require.GreaterOrEqual(t, len(went), 80)
	require.LessOrEqual(t, len(went), 6*20+4*(4+8))
}

// A process dies with a thousand calls in line: that costs the fleet those slots and nothing else. No key is left without a
// TTL, and soon the dead are not counted any more.
func TestAProcessIsKilledWithAThousandSleepers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	spec, err := json.Marshal(job{
		Fleet: "killed", Redis: server.Addr, URL: "http://127.0.0.1:1", Duration: time.Minute, Crews: []crew{{Tenant: "x", Goroutines: 1000}},
	})
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
	require.NoError(t, cmd.Start())
	rdb := server.Client()
	p, err := pacer.New(pacer.Config{Upstream: "fleet", Store: must(redisstore.New(rdb)), Policies: fleets["killed"], MaxWait: pacer.Forever})
	require.NoError(t, err)
	defer p.Close()
	require.Eventually(t, func() bool { // all are asleep: the tail of 100 a second is ten seconds away
		s, err := p.Status(t.Context(), pacer.Scope("tenant", "x"))
		return err == nil && s.Policies[0].Backlog > 900
	}, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	start := time.Now()
	for range 50 {
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "x")))
	}
	require.Less(t, time.Since(start), 13*time.Second, "a line of ten seconds, and half a second of our own")
	keys, err := rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		require.Positive(t, rdb.PTTL(t.Context(), key).Val(), "key %s has no TTL", key)
	}
	alive := func() int64 { return rdb.ZCard(t.Context(), "pacer:{fleet}/alive").Val() }
	require.Eventually(t, func() bool { return alive() == 1 }, 15*time.Second, 100*time.Millisecond)
	require.NoError(t, p.Close())
	require.Zero(t, alive(), "who closes leaves at once")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A store whose keys are in other hands, or that is not Redis, must not tell about the credentials that it was given.
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

// A beat that keeps the upstream's key for a while does not shorten the life of a pause in it.
func TestABeatDoesNotShortenAPause(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	store := must(redisstore.New(rdb))
	beat := pacer.Beat{ID: "a", Lives: time.Second, Keep: time.Second}
	_, err := store.Beat(t.Context(), "test", beat)
	require.NoError(t, err)
	stack := pacer.Stack{Upstream: "test"}
	_, _, err = store.Report(t.Context(), stack, []pacer.Note{{Kind: pacer.NotePause, Limit: pacer.WholeUpstream, For: time.Hour}})
	require.NoError(t, err)
	_, err = store.Beat(t.Context(), "test", beat)
	require.NoError(t, err)
	require.Greater(t, rdb.PTTL(t.Context(), "pacer:{test}").Val(), 59*time.Minute)
	status, err := store.Status(t.Context(), stack)
	require.NoError(t, err)
	require.InDelta(t, time.Hour, status.Paused.Sub(status.Now), float64(time.Minute))
}
