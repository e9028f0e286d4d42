package bench_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"golang.org/x/time/rate"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// A keeper is one way to keep the limits of an upstream.
type keeper struct {
	name string
	open func(*redis.Client) (gate, error) // in each process

	sends []string // commands that it sends and no script of it runs, beside EVAL and EVALSHA; one of each pipeline
}

// A gate lets calls go. Every field may be nil.
type gate struct {
	wait    func(ctx context.Context, tenant string) error                     // returns when a call may go
	refused func(ctx context.Context, tenant string, retryAfter time.Duration) // receives a 429
	over    func(base http.RoundTripper) (*http.Client, error)                 // makes a client in place of a plain one
	close   func()
}

// A pace is a limit as peers take it: n calls per period and burst at once, each tenant or all together.
type pace struct {
	n         int
	period    time.Duration
	burst     int
	perTenant bool
}

// key names the account of a pace, the i-th of its keeper.
func (p pace) key(i int, tenant string) string {
	if !p.perTenant {
		tenant = ""
	}
	return "limit" + strconv.Itoa(i) + ":" + tenant
}

// byHeadway is what this library's users do.
func byHeadway(stack ...policies.Policy) func(*redis.Client) (gate, error) {
	return func(rdb *redis.Client) (gate, error) {
		p, err := fleetPacer(rdb, stack)
		if err != nil {
			return gate{}, err
		}
		return gate{
			wait:  func(ctx context.Context, tenant string) error { return p.Wait(ctx, pacer.Scope("tenant", tenant)) },
			close: func() { _ = p.Close() },
		}, nil
	}
}

// byTransport is the keeper below a client, where it sees the replies.
func byTransport(stack ...policies.Policy) func(*redis.Client) (gate, error) {
	return func(rdb *redis.Client) (gate, error) {
		p, err := fleetPacer(rdb, stack)
		if err != nil {
			return gate{}, err
		}
		return gate{
			over: func(base http.RoundTripper) (*http.Client, error) {
				return transport.NewClient(p, transport.WithBase(base))
			},
			close: func() { _ = p.Close() },
		}, nil
	}
}

func fleetPacer(rdb *redis.Client, stack []policies.Policy) (*pacer.Pacer, error) {
	store, err := redisstore.New(rdb)
	if err != nil {
		return nil, err
	}
	return pacer.New(pacer.Config{Upstream: "fleet", Store: store, Policies: stack})
}

// byRedisRate tries redis_rate with each limit in turn, until it allows the call.
func byRedisRate(paces ...pace) func(*redis.Client) (gate, error) {
	return func(rdb *redis.Client) (gate, error) {
		limiter := redis_rate.NewLimiter(rdb)
		return gate{wait: func(ctx context.Context, tenant string) error {
			for i, p := range paces {
				for {
					res, err := limiter.Allow(ctx, p.key(i, tenant), redis_rate.Limit{Rate: p.n, Burst: p.burst, Period: p.period})
					if err != nil {
						return err
					}
					if res.Allowed > 0 {
						break
					}
					if !sleep(ctx, res.RetryAfter) {
						return ctx.Err()
					}
				}
			}
			return nil
		}}, nil
	}
}

// byThrottled tries throttled with each limit in turn, until it allows the call.
func byThrottled(paces ...pace) func(*redis.Client) (gate, error) {
	return func(rdb *redis.Client) (gate, error) {
		store, err := goredisstore.NewCtx(rdb, "throttled:")
		if err != nil {
			return gate{}, err
		}
		var limiters []throttled.RateLimiterCtx
		for _, p := range paces {
			l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerDuration(p.n, p.period), MaxBurst: p.burst - 1})
			if err != nil {
				return gate{}, err
			}
			limiters = append(limiters, l)
		}
		return gate{wait: func(ctx context.Context, tenant string) error {
			for i, l := range limiters {
				for {
					limited, res, err := l.RateLimitCtx(ctx, paces[i].key(i, tenant), 1)
					if err != nil {
						return err
					}
					if !limited {
						break
					}
					if !sleep(ctx, res.RetryAfter) {
						return ctx.Err()
					}
				}
			}
			return nil
		}}, nil
	}
}

// byWaitTime runs the script for each limit in turn, and sleeps each time.
func byWaitTime(paces ...pace) func(*redis.Client) (gate, error) {
	return func(rdb *redis.Client) (gate, error) {
		return gate{wait: func(ctx context.Context, tenant string) error {
			for i, p := range paces {
				interval := (p.period.Microseconds() + int64(p.n) - 1) / int64(p.n)
				wait, err := waitTime.Run(ctx, rdb, []string{p.key(i, tenant)}, interval, interval*int64(p.burst-1)).Int64()
				if err != nil {
					return err
				}
				if !sleep(ctx, time.Duration(wait)*time.Microsecond) {
					return ctx.Err()
				}
			}
			return nil
		}}, nil
	}
}

// byDivision gives each process its part of every limit, by golang.org/x/time/rate.
func byDivision(paces ...pace) func(*redis.Client) (gate, error) {
	return func(*redis.Client) (gate, error) {
		var mu sync.Mutex
		limiters := make(map[string]*rate.Limiter)
		limiter := func(i int, tenant string) *rate.Limiter {
			mu.Lock()
			defer mu.Unlock()
			p := paces[i]
			key := p.key(i, tenant)
			if limiters[key] == nil {
				limiters[key] = rate.NewLimiter(rate.Limit(float64(p.n)/p.period.Seconds()/fleetSize), max(1, p.burst/fleetSize))
			}
			return limiters[key]
		}
		return gate{wait: func(ctx context.Context, tenant string) error {
			for i := range paces {
				if err := limiter(i, tenant).Wait(ctx); err != nil {
					return err
				}
			}
			return nil
		}}, nil
	}
}

// byRetries lets every call go at once, and repeats what was refused.
func byRetries(*redis.Client) (gate, error) {
	c := retryablehttp.NewClient()
	c.Logger = nil
	return gate{over: func(base http.RoundTripper) (*http.Client, error) {
		c.HTTPClient.Transport = base
		return c.StandardClient(), nil
	}}, nil
}
