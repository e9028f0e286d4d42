package bench_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	goredisstore "github.com/sethvargo/go-redisstore"
	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Names of contenders.
const (
	headway         = "Headway"
	headwayCalendar = "Headway, one of them a calendar"
	ping            = "floor: PING"
	emptyScript     = "floor: an empty script"
	timeScript      = "floor: a script that reads TIME"
	waitTimeScript  = "a plain wait-time GCRA script"
	redisRate       = "redis_rate v10"
	throttledGCRA   = "throttled v2"
	redisStore      = "sethvargo/go-redisstore"
	timeRate        = "golang.org/x/time/rate"
	uberRatelimit   = "uber ratelimit"
	failsafe        = "failsafe-go"
)

// All limits are so wide that no call waits: a million per second, with a burst of a billion.
const (
	wideRate  = 1_000_000
	wideBurst = 1_000_000_000
)

func wide(name string) policies.Policy {
	return policies.PerSecond(wideRate).Burst(wideBurst).Named(name)
}

// stack is one policy, or three with one for each tenant.
func stack(limits int) []policies.Policy {
	return []policies.Policy{wide("peak"), wide("tenant").Per("tenant"), wide("long")}[:limits]
}

// calendarStack is three policies; one counts the calls of a calendar day.
func calendarStack() []policies.Policy {
	return append(stack(2), policies.Daily(1_000_000_000_000, time.UTC))
}

// tenant is what the context of a call carries whose stack has a policy for each tenant.
func tenant(ctx context.Context) context.Context {
	return pacer.With(ctx, pacer.Scope("tenant", "acme"))
}

// newPacer returns a Pacer that is patient with its store: no hiccup of the machine makes it pace locally.
func newPacer(t testing.TB, upstream string, store store.Store, stack []policies.Policy) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{
		Upstream: upstream, Store: store, Policies: stack, MaxWait: pacer.Forever, StoreTimeout: 30 * time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func newRedisStore(t testing.TB, b *backend) *redisstore.Store {
	t.Helper()
	store, err := redisstore.New(b.rdb)
	require.NoError(t, err)
	return store
}

// waits is what a user of a Pacer does.
func waits(name string, p *pacer.Pacer, limits int) contender {
	c := contender{name: name, limits: limits, decide: func(ctx context.Context, _ int) error { return p.Wait(ctx) }}
	if limits > 1 {
		c.scope = tenant
	}
	return c
}

// inMemory are the contenders that need no Redis.
func inMemory(t testing.TB) []contender {
	t.Helper()
	var all []contender
	for _, n := range []int{1, 3} {
		limiters := make([]*rate.Limiter, n)
		ubers := make([]uber.Limiter, n)
		failsafes := make([]ratelimiter.RateLimiter[any], n)
		for i := range n {
			limiters[i] = rate.NewLimiter(wideRate, wideBurst)
			ubers[i] = uber.New(wideBurst) // one that never sleeps: its rate is its resolution
			failsafes[i] = ratelimiter.NewBursty[any](wideBurst, time.Second)
		}
		all = append(all,
			contender{name: timeRate, limits: n, decide: func(ctx context.Context, _ int) error {
				for _, l := range limiters {
					if err := l.Wait(ctx); err != nil {
						return err
					}
				}
				return nil
			}},
			contender{name: uberRatelimit, limits: n, decide: func(context.Context, int) error {
				for _, l := range ubers {
					l.Take()
				}
				return nil
			}},
			contender{name: failsafe, limits: n, decide: func(ctx context.Context, _ int) error {
				for _, l := range failsafes {
					if err := l.AcquirePermit(ctx); err != nil {
						return err
					}
				}
				return nil
			}},
			waits(headway, newPacer(t, "bench", nil, stack(n)), n),
		)
	}
	return append(all, waits(headwayCalendar, newPacer(t, "bench", nil, calendarStack()), 3))
}

// waitTime is the script that people write when they want to wait rather than to be refused. One key for each limit.
//
// KEYS the limit. ARGV the emission interval and the tolerance, in µs. Reply: how long to wait, in µs.
var waitTime = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or 0)
if tat < now then tat = now end
local wait = tat - now - ARGV[2]
if wait < 0 then wait = 0 end
tat = tat + ARGV[1]
redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000))
return wait
`)

// floors are what a decision that needs Redis cannot do without.
func floors(b *backend) []contender {
	reads := redis.NewScript(`redis.call('TIME') return 1`)
	return []contender{
		{name: ping, decide: func(ctx context.Context, _ int) error { return b.rdb.Ping(ctx).Err() }},
		{name: emptyScript, decide: runEmpty(b)},
		{name: timeScript, decide: func(ctx context.Context, _ int) error { return reads.Run(ctx, b.rdb, []string{"floor"}).Err() }},
	}
}

func runEmpty(b *backend) func(context.Context, int) error {
	empty := redis.NewScript(`return 1`)
	return func(ctx context.Context, _ int) error { return empty.Run(ctx, b.rdb, []string{"floor"}).Err() }
}

// overRedis are the contenders that share their limits through Redis. Peers keep one limit per call, and are called one after the other.
func overRedis(t testing.TB, b *backend) []contender {
	t.Helper()
	all := floors(b)
	for _, n := range []int{1, 3} {
		keys := make([]string, n)
		for i := range n {
			keys[i] = fmt.Sprintf("limit:%d:%d", n, i)
		}
		each := func(ask func(ctx context.Context, key string) error) func(context.Context, int) error {
			return func(ctx context.Context, _ int) error {
				for _, key := range keys {
					if err := ask(ctx, key); err != nil {
						return err
					}
				}
				return nil
			}
		}
		all = append(all,
			contender{name: waitTimeScript, limits: n, decide: each(plainWait(b))},
			contender{name: redisRate, limits: n, decide: each(redisRateAllow(b))},
			contender{name: throttledGCRA, limits: n, decide: each(throttledAllow(t, b))},
			contender{name: redisStore, limits: n, decide: each(redisStoreTake(t, b))},
			waits(headway, newPacer(t, fmt.Sprint("bench-", n), newRedisStore(t, b), stack(n)), n),
		)
	}
	return append(all, waits(headwayCalendar, newPacer(t, "bench-calendar", newRedisStore(t, b), calendarStack()), 3))
}

func plainWait(b *backend) func(context.Context, string) error {
	const interval = int64(time.Second/time.Microsecond) / wideRate
	return func(ctx context.Context, key string) error {
		wait, err := waitTime.Run(ctx, b.rdb, []string{"plain:" + key}, interval, (wideBurst-1)*interval).Int64()
		if err == nil && wait > 0 {
			return fmt.Errorf("would wait %d µs", wait)
		}
		return err
	}
}

func redisRateAllow(b *backend) func(context.Context, string) error {
	limiter := redis_rate.NewLimiter(b.rdb)
	limit := redis_rate.Limit{Rate: wideRate, Burst: wideBurst, Period: time.Second}
	return func(ctx context.Context, key string) error {
		r, err := limiter.Allow(ctx, key, limit)
		if err == nil && r.Allowed == 0 {
			return fmt.Errorf("refused for %s", r.RetryAfter)
		}
		return err
	}
}

// throttledAllow tries again when ten others were faster: an error, in which case nothing was charged.
func throttledAllow(t testing.TB, b *backend) func(context.Context, string) error {
	t.Helper()
	store, err := throttledstore.NewCtx(b.rdb, "throttled:")
	require.NoError(t, err)
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(wideRate), MaxBurst: wideBurst})
	require.NoError(t, err)
	return func(ctx context.Context, key string) error {
		for {
			refused, r, err := limiter.RateLimitCtx(ctx, key, 1)
			if err == nil && refused {
				err = fmt.Errorf("refused for %s", r.RetryAfter)
			}
			if err == nil || !strings.Contains(err.Error(), "attempts") {
				return err
			}
		}
	}
}

// redisStoreTake has an interval that outlasts the measurement: at the turn of one, go-redisstore v0.3.0 fills up by interval
// ÷ tokens, not tokens ÷ interval, and would refuse.
func redisStoreTake(t testing.TB, b *backend) func(context.Context, string) error {
	t.Helper()
	store, err := goredisstore.NewWithPool(&goredisstore.Config{Tokens: wideBurst, Interval: 24 * time.Hour}, b.pool)
	require.NoError(t, err)
	return func(ctx context.Context, key string) error {
		_, _, _, ok, err := store.Take(ctx, "redisstore:"+key)
		if err == nil && !ok {
			return fmt.Errorf("refused")
		}
		return err
	}
}
