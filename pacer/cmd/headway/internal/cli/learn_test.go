package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/cmd/headway/internal/cli"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// A process without policies makes the limits that replies state known to all who share its store.
func TestLearn(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	headway := on(t, server.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true, DialTimeout: patience, ReadTimeout: patience})
	defer rdb.Close()
	shared, err := redisstore.New(rdb)
	require.NoError(t, err)
	p, err := pacer.New(pacer.Config{Upstream: "acme", Store: shared, StoreTimeout: patience})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Do(t.Context(), func(context.Context) (policies.Reading, error) {
		said := policies.Feedback{Limit: policies.Reported(60), Remaining: policies.Reported(59), Reset: time.Minute, Source: "X-RateLimit"}
		return policies.Reading{Feedback: []policies.Feedback{said}}, nil
	}))
	require.Eventually(t, func() bool {
		got := headway("learn", "acme")
		return got.code == cli.ExitDone && strings.Contains(got.out, `  acme:
    policies:
      - "limit-60: at most 60 in any 1m, in 100 buckets"
        # limit 60 stated; resets of up to 1m; 1 reading of X-RateLimit from `)
	}, patience, 200*time.Millisecond, "processes report every few seconds")
	require.Contains(t, headway("status", "acme").out, "STATED BY REPLIES")
	require.Contains(t, headway("learn", "acme", "--json").out, `"readings": 1`)
	require.Equal(t, cli.ExitUnknown, headway("learn", "other").code)
}
