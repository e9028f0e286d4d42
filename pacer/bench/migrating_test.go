package bench_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// The functions below hold the code of docs/migrating.md, letter for letter: TestTheMigrations checks that, and runs them.

func rateBefore(ctx context.Context, call func(context.Context) error) error {
	// before
	limiter := rate.NewLimiter(rate.Limit(10), 5)
	if err := limiter.Wait(ctx); err != nil {
		return err
	}
	return call(ctx)
}

func rateAfter(ctx context.Context, call func(context.Context) error) error {
	// after
	p, err := pacer.New(pacer.Config{Upstream: "crm", Policies: []policies.Policy{policies.PerSecond(10).Burst(5)}})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Wait(ctx); err != nil {
		return err
	}
	return call(ctx)
}

func redisRateBefore(ctx context.Context, call func(context.Context) error, rdb *redis.Client) error {
	// before
	limiter := redis_rate.NewLimiter(rdb)
	for {
		res, err := limiter.Allow(ctx, "crm", redis_rate.PerSecond(10))
		if err != nil {
			return err // Redis is unreachable: no call is made
		}
		if res.Allowed > 0 {
			break
		}
		select {
		case <-time.After(res.RetryAfter): // then all waiting callers retry at once
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return call(ctx)
}

func redisRateAfter(ctx context.Context, call func(context.Context) error, rdb *redis.Client) error {
	// after
	store, err := redisstore.New(rdb)
	if err != nil {
		return err
	}
	p, err := pacer.New(pacer.Config{Upstream: "crm", Store: store, Policies: []policies.Policy{policies.PerSecond(10).Burst(10)}})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Wait(ctx); err != nil {
		return err
	}
	return call(ctx)
}

func TestTheMigrations(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/migrating.md")
	require.NoError(t, err)
	here, err := os.ReadFile("migrating_test.go")
	require.NoError(t, err)
	blocks := goBlocks(string(page))
	require.Len(t, blocks, 4)
	for _, block := range blocks {
		if !strings.Contains(unindented(string(here)), unindented(block)) {
			t.Fatalf("a snippet of docs/migrating.md is not what is tested:\n%s", block)
		}
	}

	ctx, b, calls := t.Context(), newBackend(t), 0
	call := func(context.Context) error {
		calls++
		return nil
	}
	require.NoError(t, rateBefore(ctx, call))
	require.NoError(t, rateAfter(ctx, call))
	require.NoError(t, redisRateBefore(ctx, call, b.rdb))
	require.NoError(t, redisRateAfter(ctx, call, b.rdb))
	require.Equal(t, 4, calls)
}

// unindented drops indentation.
func unindented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
