//go:build measure

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/policies"
)

// commands counts the commands of clients for pacing, heartbeats and subscriptions included, on a server. Commands that scripts run do not
// count.
func commands(ctx context.Context, rdb *redis.Client) (n int, err error) {
	info, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	for _, m := range regexp.MustCompile(`cmdstat_(?:eval|evalsha|eval_ro|evalsha_ro|fcall|ping|subscribe|unsubscribe|script\|load):calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		calls, err := strconv.Atoi(m[1])
		if err != nil {
			return 0, err
		}
		n += calls
	}
	return n, nil
}

// between returns how many calls went in a time.
func (b *band) between(from, to time.Time) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.went {
		if at := b.went[i].At; at >= from.UnixMicro() && at < to.UnixMicro() {
			n++
		}
	}
	return n
}

// Where many wait, a request is for several calls: at the limit there is about one request for each call if calls are few, and far fewer if
// they are many, all messages between processes included.
func TestFleetRequestsPerCall(t *testing.T) { //nolint:paralleltest // it is alone
	for _, c := range []struct {
		rate    int64
		callers int
		most    float64 // requests for each call
	}{
		{50, 16, 1.1},
		{1000, 1000, 0.2},
	} {
		t.Run(fmt.Sprintf("%d a second for 4 × %d", c.rate, c.callers), func(t *testing.T) {
			server := redistest.Start(t)
			b := newBand(t, server, server.Addr, fleetSize, policies.PerSecond(c.rate))
			const warm = time.Second
			length := 12 * time.Second
			timers := measure.Watch()
			begin := time.Now()
			ctx, cancel := endsAt(t.Context(), begin.Add(warm+length))
			defer cancel()
			var sent int
			var took float64
			var counting errgroup.Group
			counting.Go(func() error {
				time.Sleep(warm)
				before, err := commands(t.Context(), b.rdb)
				if err != nil {
					return err
				}
				took = processor(t, b.rdb)
				time.Sleep(time.Until(begin.Add(warm + length - 10*time.Millisecond)))
				took = processor(t, b.rdb) - took
				after, err := commands(t.Context(), b.rdb)
				sent = after - before
				return err
			})
			b.work(ctx, c.callers, 0, nil)
			late := timers.Stop()
			require.NoError(t, counting.Wait())
			b.requireTruth(t, rule{kind: evenly, n: c.rate, period: time.Second, burst: 1})
			n := b.between(begin.Add(warm), begin.Add(warm+length))
			each := float64(sent) / float64(max(1, n))
			plain := takesPlainly(t, b.rdb, c.rate, length)
			cost := took / float64(max(1, n)) / plain
			measure.Judge(t, late, tolerated, fmt.Sprintf("%.2f requests a call, %.1f calls/s of %d/s, %.2f times the server's CPU of a plain script (%.0f µs a call)",
				each, float64(n)/length.Seconds(), c.rate, cost, 1e6*plain), each <= c.most && cost <= 1.5)
		})
	}
}

// takesPlainly returns for how many seconds a plain wait-time script takes the server's processor for each call, if 64 callers use it for a while.
func takesPlainly(t *testing.T, rdb *redis.Client, rate int64, length time.Duration) float64 {
	t.Helper()
	script := redis.NewScript(`
		local t = redis.call('TIME')
		local now = t[1] * 1000000 + t[2]
		local at = math.max(now, tonumber(redis.call('GET', KEYS[1]) or now))
		redis.call('SET', KEYS[1], string.format('%.0f', at + ARGV[1]), 'PX', 60000)
		return at - now`)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var calling errgroup.Group
	var n atomic.Int64
	took := processor(t, rdb)
	for range 64 {
		calling.Go(func() error {
			for ctx.Err() == nil {
				wait, err := script.Run(ctx, rdb, []string{"plain"}, time.Second.Microseconds()/rate).Int64()
				if err != nil && ctx.Err() == nil {
					return err
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(wait) * time.Microsecond):
					n.Add(1)
				}
			}
			return nil
		})
	}
	require.NoError(t, calling.Wait())
	return (processor(t, rdb) - took) / float64(max(1, n.Load()))
}

// A large fleet's background requests do not grow with the fleet: 200 requests a second at most. A thousand processes whose calls wait take
// little of the server's processor. To see the figures:
//
//	go test -tags measure -count=1 -v -run FleetOfWaitingProcesses ./pacer/redisstore
func TestFleetOfWaitingProcesses(t *testing.T) { //nolint:paralleltest // it is alone
	const n = 1000
	for name, c := range map[string]struct {
		policy policies.Policy
		most   float64 // part of a processor
	}{
		"at 200 a second":   {policies.PerSecond(200), 0.05},
		"for a spent quota": {policies.Every(time.Hour), 0.03},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, "--maxclients", "10000")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var waiting sync.WaitGroup
			var all []*counted
			var calls atomic.Int64
			for range n {
				one := newCountedIn(t, server.Addr, patience, c.policy)
				all = append(all, one)
				for range 4 {
					waiting.Go(func() {
						for one.Wait(ctx) == nil {
							calls.Add(1)
						}
					})
				}
			}
			listening(t, server.Client(), int64(n))
			time.Sleep(n * time.Second / 20) // they have got to know each other
			const length = 30 * time.Second
			timers := measure.Watch()
			requests := func() (of map[string]int) {
				of = make(map[string]int)
				for _, one := range all {
					for op, k := range one.since() {
						of[op] += k
					}
				}
				return of
			}
			requests()
			calls.Store(0)
			cpu := processor(t, server.Client())
			sent, err := commands(ctx, server.Client())
			require.NoError(t, err)
			time.Sleep(length)
			went, of := calls.Load(), requests()
			cpu = processor(t, server.Client()) - cpu
			after, err := commands(ctx, server.Client())
			require.NoError(t, err)
			late := timers.Stop()
			cancel()
			waiting.Wait()
			beside := float64(after-sent-of["reserve"]-of["cancel"]) / length.Seconds()
			part := cpu / length.Seconds()
			figures := fmt.Sprintf("%d processes × 4 calls: %.0f calls/s, %.0f requests/s for them, %.0f/s beside; %.1f %% of a core", n,
				float64(went)/length.Seconds(), float64(of["reserve"]+of["cancel"])/length.Seconds(), beside, 100*part)
			require.LessOrEqual(t, beside, 200.0, "%v", of)
			measure.Judge(t, late, tolerated, figures, part <= c.most)
		})
	}
}

// processor returns for how many seconds a server has used a processor.
func processor(t *testing.T, rdb *redis.Client) (took float64) {
	t.Helper()
	for _, m := range regexp.MustCompile(`used_cpu_(?:user|sys):([0-9.]+)`).FindAllStringSubmatch(rdb.Info(t.Context(), "cpu").Val(), -1) {
		seconds, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		took += seconds
	}
	return took
}

// Processes whose calls sleep far away do not poll the server: they only send heartbeats.
func TestFleetThatWaitsCostsNothing(t *testing.T) {
	const n, seconds = 60, 4
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all []*counted
	var ends []func() []error
	for range n {
		c := newCounted(t, server.Addr, policies.Every(20*time.Second))
		r, err := c.Reserve(ctx)
		require.NoError(t, err)
		all, ends = append(all, c), append(ends, sleepAll(ctx, []*pacer.Reservation{r}))
	}
	time.Sleep(3 * time.Second) // they have got to know each other
	for _, c := range all {
		c.since()
	}
	time.Sleep(seconds * time.Second)
	sent := make(map[string]int)
	for _, c := range all {
		for op, k := range c.since() {
			sent[op] += k
		}
	}
	t.Logf("%v in %d s by %d processes", sent, seconds, n)
	require.LessOrEqual(t, sent["heartbeat"], n*seconds/2, "once in three seconds, and a little more at first")
	require.LessOrEqual(t, sent["describe"], n*seconds/2)
	cancel()
	for i, ended := range ends {
		err := ended()[0]
		require.True(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
		all[i].steady(t)
	}
}
