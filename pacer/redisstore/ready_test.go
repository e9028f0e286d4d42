package redisstore_test

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// isReady checks whether the store of a client's Pacer is ready.
func isReady(t *testing.T, rdb redis.UniversalClient) error {
	t.Helper()
	t.Cleanup(func() { _ = rdb.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return newPacer(t, rdb, policies.PerSecond(10)).Ready(ctx)
}

// requireProblem requires an error that names a problem, and what it is about.
func requireProblem(t *testing.T, err error, problem redisstore.Problem, what ...string) {
	t.Helper()
	var failed *pacer.StoreError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "ready", failed.Op)
	require.ErrorContains(t, err, `pacer: upstream "test": the store is not ready: redisstore: `)
	var why *redisstore.NotReadyError
	require.ErrorAs(t, err, &why)
	require.Equal(t, problem, why.Problem, "%v", err)
	require.Equal(t, what, why.What, "%v", err)
}

// A server that meets docs/redis.md is ready, whatever it is, and nothing is left there.
func TestReady(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rule := []any{"ACL", "SETUSER", "headway", "on", ">secret", "resetkeys", "~pacer:*", "resetchannels", "&pacer:*", "nocommands"}
	for c := range strings.FieldsSeq(aclCommands) {
		rule = append(rule, "+"+c)
	}
	require.NoError(t, server.Client().Do(t.Context(), rule...).Err())
	for range 2 {
		require.NoError(t, isReady(t, redis.NewClient(&redis.Options{Addr: server.Addr, Username: "headway", Password: "secret"})))
	}
	require.Zero(t, server.Client().DBSize(t.Context()).Val())
	cached, err := server.Client().Info(t.Context(), "memory").Result()
	require.NoError(t, err)
	require.Contains(t, cached, "number_of_cached_scripts:12", "all scripts are loaded")

	// A process that waits is not notified.
	p := newPacer(t, server.Client(), policies.PerMinute(1).Burst(1))
	require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
	asleep(t, p)
	listening(t, server.Client(), 1)
	require.NoError(t, p.Ready(t.Context()))
}

func TestReadyInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	require.NoError(t, isReady(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{cluster.Nodes[0].Addr}})))
	for _, node := range cluster.Nodes {
		require.Zero(t, node.Client().DBSize(t.Context()).Val())
	}
}

// The error names what the user may not do.
func TestNotReadyBecauseOfTheACL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules    []any
		password string
		problem  redisstore.Problem
		what     []string
	}{
		"a wrong password":    {nil, "guessed", redisstore.Credentials, nil},
		"no EVALSHA":          {[]any{"-evalsha"}, "secret", redisstore.Commands, []string{"evalsha"}},
		"no EVAL":             {[]any{"-eval"}, "secret", redisstore.Commands, []string{"eval"}},
		"no HSET, no ZADD":    {[]any{"-hset", "-zadd"}, "secret", redisstore.Commands, []string{"zadd", "hset"}},
		"no DEL":              {[]any{"-del"}, "secret", redisstore.Commands, []string{"del"}},
		"no PUBLISH":          {[]any{"-publish"}, "secret", redisstore.Commands, []string{"publish"}},
		"no SUBSCRIBE":        {[]any{"-subscribe"}, "secret", redisstore.Commands, []string{"subscribe"}},
		"other keys":          {[]any{"resetkeys", "~other:*"}, "secret", redisstore.Keys, []string{"pacer:10:{test}/ready"}},
		"no index":            {[]any{"resetkeys", "~pacer:10:{test}*"}, "secret", redisstore.Keys, []string{"pacer:10:upstreams"}},
		"other channels":      {[]any{"resetchannels", "&other:*"}, "secret", redisstore.Channels, []string{"pacer:10:{test}/pauses"}},
		"may not do anything": {[]any{"-@all"}, "secret", redisstore.Commands, []string{"evalsha"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			allow(t, server, append([]any{"+@all"}, c.rules...)...)
			err := isReady(t, redis.NewClient(asUser(server, c.password)))
			requireProblem(t, err, c.problem, c.what...)
			require.NotErrorIs(t, err, pacer.ErrUnreachable)
			require.Zero(t, server.Client().DBSize(t.Context()).Val())
		})
	}
}

func TestNotReadyBecauseOfTheServer(t *testing.T) {
	t.Parallel()
	t.Run("replica", func(t *testing.T) {
		t.Parallel()
		server, other := redistest.Start(t), redistest.Start(t)
		require.NoError(t, server.Replicate(t.Context(), other))
		err := isReady(t, redis.NewClient(&redis.Options{Addr: server.Addr}))
		require.ErrorContains(t, err, "connect to the master")
		requireProblem(t, err, redisstore.ReadOnly, "set")
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		require.NoError(t, server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
		err := isReady(t, redis.NewClient(&redis.Options{Addr: server.Addr}))
		requireProblem(t, err, redisstore.Full, "set")
		require.ErrorContains(t, err, "raise maxmemory")
	})
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		server.Stop()
		err := isReady(t, redis.NewClient(&redis.Options{Addr: server.Addr}))
		requireProblem(t, err, redisstore.Unreachable)
		require.ErrorIs(t, err, pacer.ErrUnreachable)
		require.ErrorContains(t, err, "connection refused")
	})
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		server.Pause()
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr}) // its read timeout is three seconds
		t.Cleanup(func() { _ = rdb.Close() })
		p := newPacer(t, rdb, policies.PerSecond(10))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := p.Ready(ctx)
		requireProblem(t, err, redisstore.Unreachable)
		require.ErrorIs(t, err, pacer.ErrUnreachable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		server.Continue()
		require.NoError(t, p.Ready(t.Context()))
	})
	t.Run("loading", func(t *testing.T) {
		t.Parallel()
		addr := reports(t, "-LOADING Redis is loading the dataset in memory\r\n")
		err := isReady(t, redis.NewClient(&redis.Options{Addr: addr}))
		requireProblem(t, err, redisstore.Loading, "pacer:10:{test}/ready")
		require.ErrorIs(t, err, pacer.ErrUnreachable)
	})
	t.Run("nonsense", func(t *testing.T) {
		t.Parallel()
		require.Error(t, isReady(t, redis.NewClient(&redis.Options{Addr: reports(t, "*3\r\n:1\r\n:2\r\n:3\r\n")})))
	})
}

// reports runs a server that gives one answer to everything after a client's greeting, and returns its address.
func reports(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					reply := ""
					switch strings.ToLower(lines.Text()) {
					case "hello":
						reply = "-ERR unknown command 'hello'\r\n"
					case "client":
						reply = "+OK\r\n"
					case "evalsha", "eval", "subscribe":
						reply = answer
					}
					if _, err := conn.Write([]byte(reply)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}
