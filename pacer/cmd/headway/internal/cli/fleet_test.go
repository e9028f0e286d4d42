package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/cmd/headway/internal/cli"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// workers are pacers of one upstream, as two processes would have them, that keep calling for two tenants.
func workers(t *testing.T, addr, upstream string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	var ends []func()
	for i := range 2 {
		rdb := redis.NewClient(&redis.Options{
			Addr: addr, ContextTimeoutEnabled: true, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
		})
		store, err := redisstore.New(rdb)
		require.NoError(t, err)
		p, err := pacer.New(pacer.Config{
			Upstream: upstream, Store: store, Name: fmt.Sprintf("worker-%d", i+1), MaxWait: pacer.Forever, StoreTimeout: patience,
			Policies: []policies.Policy{
				policies.PerSecond(20).Named("account"), policies.Daily(100_000, time.UTC).Named("day"),
				policies.PerSecond(50).Per("tenant").Named("tenant"),
			},
		})
		require.NoError(t, err)
		for j := range 8 {
			wg.Go(func() {
				for p.Wait(ctx, pacer.Scope("tenant", []string{"acme", "globex"}[j%2])) == nil {
				}
			})
		}
		ends = append(ends, func() {
			p.Close()
			_ = rdb.Close()
		})
	}
	t.Cleanup(func() {
		stop()
		wg.Wait()
		for _, end := range ends {
			end()
		}
	})
}

// outcome is what a command line did.
type outcome struct {
	code     int
	out, err string
}

// run runs a command line without a terminal.
func run(t *testing.T, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), args, cli.Env{
		Get: func(string) string { return "" }, In: strings.NewReader("yes\n"), Out: &out, Err: &errs, Open: cli.OpenRedis,
	})
	return outcome{code, out.String(), errs.String()}
}

// on returns a function that runs command lines with a server.
func on(t *testing.T, addr string) func(args ...string) outcome {
	t.Helper()
	return func(args ...string) outcome {
		return run(t, append([]string{"--redis", addr, "--timeout", patience.String()}, args...)...)
	}
}

// patience is how long to wait for what must come, however slow the machine is.
const patience = time.Minute

// known waits until both processes have reported their policies.
func known(t *testing.T, headway func(...string) outcome) {
	t.Helper()
	require.Eventually(t, func() bool {
		got := headway("status", "zendesk")
		return got.code == cli.ExitDone && strings.Contains(got.out, "2 processes") && strings.Contains(got.out, "100000 daily")
	}, patience, 200*time.Millisecond, "processes tell of themselves every few seconds")
}

func startRedis(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Start(t)
}
