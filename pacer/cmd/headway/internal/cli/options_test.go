package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/cmd/headway/internal/cli"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// A Redis that is out of reach is a failure, reported at once, as a sentence or as JSON.
func TestRedisOutOfReach(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"ls"}, {"status", "zendesk"}, {"pause", "zendesk", "5s"}, {"resume", "zendesk"}, {"reset", "zendesk", "-y"}} {
		got := on(t, "127.0.0.1:1")(args...)
		require.Equal(t, cli.ExitFailed, got.code, args)
		require.Empty(t, got.out)
		require.Contains(t, got.err, "headway: the Redis at 127.0.0.1:1 is out of reach or refuses: ")
		require.Contains(t, got.err, "check --redis or HEADWAY_REDIS, and whether the server runs")
		require.Equal(t, 1, strings.Count(got.err, "\n"), "one sentence: %s", got.err)
	}
	got := on(t, "127.0.0.1:1")("ls", "--json")
	var failed struct {
		Error string
		Code  int
	}
	require.NoError(t, json.Unmarshal([]byte(got.err), &failed))
	require.Equal(t, cli.ExitFailed, failed.Code)
	require.Contains(t, failed.Error, "the Redis at 127.0.0.1:1")
	got = run(t, "ls", "--json", "--nonsense")
	require.NoError(t, json.Unmarshal([]byte(got.err), &failed))
	require.Equal(t, cli.ExitUsage, failed.Code)
}

// A Redis that hangs costs the timeout and no more.
func TestRedisThatHangs(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	server.Pause()
	got := on(t, server.Addr)("ls", "--timeout", "300ms")
	require.Equal(t, cli.ExitFailed, got.code)
}

// Mistakes in Redis's address are reported; a password is not, however it is written.
func TestWhereRedisIs(t *testing.T) {
	t.Parallel()
	const noAddress, noURL = "--redis is not an address: write host:port", "--redis is not a valid Redis URL"
	for addr, want := range map[string]string{
		"nowhere":                         noAddress,
		"a:1,b":                           noAddress,
		"http://u:hunter2@h:1":            noURL,
		"redis://u:hunter2@h:1x":          noURL,
		"redis://u:hunter2@h:1/zero":      noURL,
		"redis://h:1/hunter2":             noURL,
		"redis://u:hunter2/x@h":           noURL,
		"redis://u:hunter2#x@h:1":         noURL,
		"redis://u:hunter2%@h:1":          noURL,
		"redis://h:1?password=hunter2":    noURL,
		"redis://h:1?max_retries=hunter2": noURL,
		"redis://u:hunter2@127.0.0.1:1/0": "the Redis at 127.0.0.1:1 is out of reach",
		"redis://:hunter2?x@127.0.0.1:1":  noURL,
		"redis://password=hunter2,h:1":    noURL,
		"redis://h:1,password=hunter2":    noURL,
		"unix:///hunter2":                 noURL,
		"u:hunter2@127.0.0.1:1":           noAddress,
		"127.0.0.1:1:hunter2":             noAddress,
		"127.0.0.1:hunter2":               noAddress,
		"127.0.0.1:1,password=hunter2":    noAddress,
		"127.0.0.1:1,password=hunter2:2":  noAddress,
		"127.0.0.1:1,password=hunter2,ssl=True,abortConnect=False": noAddress,
	} {
		for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"status", "zendesk"}} {
			got := on(t, addr)(append(args, "--timeout", "1s")...)
			require.NotZero(t, got.code, addr)
			require.Contains(t, got.err, want, addr)
			require.NotContains(t, got.err+got.out, "hunter2")
		}
	}
	require.Contains(t, run(t, "ls", "--timeout", "0s").err, "--timeout is 0s: it must be more than 0")
	require.Contains(t, run(t, "ls", "--cluster", "--master", "m").err, "--cluster and --master exclude each other")
}

// A command that is almost one is answered in a line.
func TestACommandThatDoesNotExist(t *testing.T) {
	t.Parallel()
	require.Equal(t, outcome{cli.ExitUsage, "", `headway: unknown command "paus" for "headway"; Did you mean this? pause: see headway --help` + "\n"}, run(t, "paus"))
	require.Equal(t, outcome{cli.ExitUsage, "", `headway: unknown command "foo" for "headway": see headway --help` + "\n"}, run(t, "foo"))
	require.Equal(t, outcome{cli.ExitUsage, "", `headway: unknown command "nonsense" for "headway": see headway --help` + "\n"}, run(t, "nonsense"))
	require.Equal(t, outcome{cli.ExitUsage, "", "headway: write headway status UPSTREAM: see headway status --help\n"}, run(t, "status"))
}

// The environment holds Redis's address, and the flag goes before it.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	var where []cli.Where
	env := cli.Env{
		Get: func(name string) string { return map[string]string{"HEADWAY_REDIS": "env:1"}[name] }, Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
		Open: func(w cli.Where) (cli.Store, error) {
			where = append(where, w)
			return nil, errors.New("not today")
		},
	}
	require.Equal(t, cli.ExitFailed, cli.Run(t.Context(), []string{"ls"}, env))
	require.Equal(t, cli.ExitFailed, cli.Run(t.Context(), []string{"ls", "--redis", "flag:1"}, env))
	env.Get = func(string) string { return "" }
	require.Equal(t, cli.ExitFailed, cli.Run(t.Context(), []string{"ls"}, env))
	require.Equal(t, []string{"env:1", "flag:1", cli.DefaultRedis}, []string{where[0].Redis, where[1].Redis, where[2].Redis})
}

// A command that is interrupted ends.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var out, errs bytes.Buffer
	code := cli.Run(ctx, []string{"ls", "--redis", server.Addr}, cli.Env{Get: func(string) string { return "" }, Out: &out, Err: &errs, Open: cli.OpenRedis})
	require.Equal(t, cli.ExitFailed, code)
}

// The commands work with a cluster if one of its nodes is given.
func TestCluster(t *testing.T) {
	t.Parallel()
	addr := redistest.StartCluster(t).Addrs[0]
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Store: store, Policies: []policies.Policy{policies.PerSecond(5)}, StoreTimeout: patience})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Wait(t.Context()))
	require.Eventually(t, func() bool {
		got := run(t, "ls", "--redis", addr, "--cluster")
		return got.code == cli.ExitDone && strings.Contains(got.out, "zendesk")
	}, patience, 200*time.Millisecond)
	got := run(t, "status", "zendesk", "--redis", "redis://"+addr, "--cluster")
	require.Equal(t, cli.ExitDone, got.code, got.err)
}

var _ cli.Operator = (*fleet.Operator)(nil)
