package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// An upstream's statement that lasts for hours is shown with its end and its header to an operator with only the store, who withdraws it.
func TestWhatAnUpstreamStatesIsResumed(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	headway := on(t, server.Addr)
	rdb := redis.NewClient(&redis.Options{
		Addr: server.Addr, ContextTimeoutEnabled: true, DialTimeout: patience, ReadTimeout: patience, PoolTimeout: patience,
	})
	defer rdb.Close()
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	p, err := pacer.New(pacer.Config{
		Upstream: "spotify", Store: store, Name: "worker", StoreTimeout: patience,
		Policies: []policies.Policy{policies.PerSecond(50).Per("tenant").Named("api")},
	})
	require.NoError(t, err)
	defer p.Close()
	acme, globex := pacer.Scope("tenant", "acme"), pacer.Scope("tenant", "globex")
	ban := policies.Feedback{Source: "Retry-After", Wait: 81654 * time.Second}
	require.NoError(t, p.Report(t.Context(), ban, acme))
	require.ErrorIs(t, p.Wait(t.Context(), acme, pacer.MaxWait(0)), pacer.ErrNotYet)
	prints(t, headway, "status spotify --scope tenant=acme", `^api +tenant=acme .*; paused for 22h41m, until .* \(Retry-After\)$`)
	require.NoError(t, p.Wait(t.Context(), globex, pacer.MaxWait(0)), "the ban is of a tenant")

	spent := policies.Feedback{Source: "X-RateLimit-Reset", Limit: policies.Reported(5000), Remaining: policies.Reported(0), Reset: 10 * time.Hour}
	require.NoError(t, p.Report(t.Context(), spent, globex))
	require.ErrorIs(t, p.Wait(t.Context(), globex, pacer.MaxWait(0)), pacer.ErrNotYet)
	prints(t, headway, "status spotify", `^upstream \(5000\) +- +0 +0 +for (10h|9h5\dm), until \S+ +X-RateLimit-Reset$`,
		`^paused: the whole upstream, for (10h|9h5\dm), until .* \(X-RateLimit-Reset\)$`)

	require.Contains(t, headway("resume", "spotify", "--scope", "tenant=acme").out, "spotify: api for tenant=acme is resumed; left of its pause: 22h")
	require.NoError(t, p.Wait(t.Context(), globex), "what was said of the upstream is taken back, too")
	require.NoError(t, p.Wait(t.Context(), acme))
	holds, _, _ := strings.Cut(headway("status", "spotify").out, "STATED BY REPLIES")
	require.NotContains(t, holds, "X-RateLimit-Reset")

	require.NoError(t, p.Report(t.Context(), spent, globex))
	require.ErrorIs(t, p.Wait(t.Context(), globex, pacer.MaxWait(0)), pacer.ErrNotYet)
	o, err := fleet.Open(t.Context(), store, "spotify")
	require.NoError(t, err)
	defer o.Close()
	require.NoError(t, o.Resume(t.Context()), "without a look before")
	require.NoError(t, p.Wait(t.Context(), globex))
}
