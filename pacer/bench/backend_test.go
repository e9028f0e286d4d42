package bench_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	lua "github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// patient is how long clients wait for a server, and for a connection.
const patient = time.Minute

// backend is a Redis server, and clients that count what they send.
type backend struct {
	rdb  *redis.Client // with as many connections as redis.NewClient makes it (10 for each core), and punctual
	pool *redigo.Pool
	sent counter
}

func newBackend(t testing.TB) *backend {
	t.Helper()
	server := redistest.Start(t)
	b := &backend{rdb: redis.NewClient(&redis.Options{
		Addr: server.Addr, ContextTimeoutEnabled: true,
		DialTimeout: patient, ReadTimeout: patient, WriteTimeout: patient, PoolTimeout: patient, // no busy machine makes a request fail
	})}
	t.Cleanup(func() { _ = b.rdb.Close() })
	b.sent.background = make(map[any]bool)
	program := lua.New()
	for _, source := range []string{program[lua.Heartbeat], program[lua.Describe], program[lua.Enlist]} {
		b.sent.background[source], b.sent.background[redis.NewScript(source).Hash()] = true, true
	}
	b.rdb.AddHook(&b.sent)
	b.pool = &redigo.Pool{
		MaxActive: 100, // of redisstore.New, which keeps none of them idle and so dials each time
		MaxIdle:   100,
		Dial: func() (redigo.Conn, error) {
			c, err := redigo.Dial("tcp", server.Addr)
			return &countedConn{c, &b.sent}, err
		},
	}
	t.Cleanup(func() { _ = b.pool.Close() })
	return b
}

// counter counts requests: commands that a client sends, not those that scripts run.
type counter struct {
	background           map[any]bool // the scripts that a Pacer sends in the background, by hash and by source
	requests, heartbeats atomic.Int64
	failed               atomic.Int64 // of Headway: a Pacer whose store fails goes on locally, and that is not what is measured
}

// DialHook implements [redis.Hook].
func (*counter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		c.note(cmd, err)
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			c.note(cmd, cmd.Err())
		}
		return err
	}
}

func (c *counter) note(cmd redis.Cmder, err error) {
	if name := cmd.Name(); name == "hello" || name == "client" {
		return // of a new connection, which is opened when another request is under way
	}
	if args := cmd.Args(); len(args) > 1 && c.background[args[1]] {
		c.heartbeats.Add(1)
		return
	}
	c.requests.Add(1)
	var answered redis.Error
	if err != nil && !errors.As(err, &answered) {
		c.failed.Add(1)
	}
}

// countedConn counts what redigo sends.
type countedConn struct {
	redigo.Conn

	sent *counter
}

func (c *countedConn) Do(command string, args ...any) (any, error) {
	if command != "" { // which only flushes
		c.sent.requests.Add(1)
	}
	return c.Conn.Do(command, args...)
}

func (c *countedConn) Send(command string, args ...any) error {
	c.sent.requests.Add(1)
	return c.Conn.Send(command, args...)
}

// usage is what a server has spent and received so far.
type usage struct {
	cpu      float64 // µs of the whole process
	scripts  float64 // µs inside of EVAL and EVALSHA
	requests int64
}

// usage queries the server. That costs some CPU time of its own, the same before and after every turn.
func (b *backend) usage(t testing.TB) usage {
	t.Helper()
	reply, err := b.rdb.Info(t.Context(), "cpu", "commandstats").Result()
	require.NoError(t, err)
	b.sent.requests.Add(-1)
	u := usage{requests: b.sent.requests.Load()}
	info := parseInfo(reply)
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(info[name], 64)
		require.NoError(t, err, name)
		u.cpu += seconds * float64(time.Second/time.Microsecond)
	}
	for _, name := range []string{"cmdstat_eval", "cmdstat_evalsha"} {
		for field := range strings.SplitSeq(info[name], ",") {
			if usec, ok := strings.CutPrefix(field, "usec="); ok {
				n, err := strconv.ParseFloat(usec, 64)
				require.NoError(t, err, name)
				u.scripts += n
			}
		}
	}
	return u
}

// parseInfo reads a reply of INFO.
func parseInfo(reply string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(reply) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}
