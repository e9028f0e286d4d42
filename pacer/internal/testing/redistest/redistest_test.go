package redistest_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

func TestServerKeepsAValue(t *testing.T) {
	t.Parallel()

	server := redistest.Start(t)
	client := server.Client()
	require.Same(t, client, server.Client())

	require.NoError(t, client.Set(t.Context(), "k", "v", 0).Err())

	got, err := client.Get(t.Context(), "k").Result()
	require.NoError(t, err)
	require.Equal(t, "v", got)
}

func TestExtraArgumentsReachTheServer(t *testing.T) {
	t.Parallel()

	client := redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Client()

	got, err := client.ConfigGet(t.Context(), "maxmemory-policy").Result()
	require.NoError(t, err)
	require.Equal(t, "allkeys-lru", got["maxmemory-policy"])
}

func TestRestartedServerIsEmptyOnTheSameAddress(t *testing.T) {
	t.Parallel()

	server := redistest.Start(t)
	client, addr := server.Client(), server.Addr
	require.NoError(t, client.Set(t.Context(), "k", "v", 0).Err())

	server.Stop()
	server.Stop() // harmless
	require.Error(t, client.Ping(t.Context()).Err())

	server.Restart()
	require.Equal(t, addr, server.Addr)
	require.ErrorIs(t, client.Get(t.Context(), "k").Err(), redis.Nil)

	server.Restart() // of a running server
	require.NoError(t, client.Ping(t.Context()).Err())
}

func TestPausedServerAnswersOnlyWhenContinued(t *testing.T) {
	t.Parallel()

	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: 50 * time.Millisecond, MaxRetries: -1})

	t.Cleanup(func() { require.NoError(t, client.Close()) })
	require.NoError(t, client.Ping(t.Context()).Err())

	server.Pause()
	require.Error(t, client.Ping(t.Context()).Err())

	server.Continue()
	require.NoError(t, server.Client().Ping(t.Context()).Err())
}

func TestAPausedServerIsCleanedUp(t *testing.T) { //nolint:tparallel // the subtest must end first
	t.Parallel()

	var server *redistest.Server

	t.Run("test that forgets to continue", func(t *testing.T) {
		server = redistest.Start(t)
		server.Pause()
	})

	if server == nil {
		t.Skip("redistest: there is no server here")
	}

	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1})

	t.Cleanup(func() { require.NoError(t, client.Close()) })
	require.ErrorContains(t, client.Ping(t.Context()).Err(), "refused")
}

func TestMissingBinarySkipsAndFailsUnderCI(t *testing.T) {
	t.Setenv("HEADWAY_REDIS_SERVER", "no-such-redis-server")

	for ci, want := range map[string]string{"": "skip: ", "true": "fatal: "} {
		t.Setenv("CI", ci)

		got := outcome(t, func(tb testing.TB) { tb.Helper(); redistest.Start(tb) })
		require.Equal(t, want+"redistest: no no-such-redis-server in PATH: "+
			"install redis-server, for example with `make redis` or `apt-get install redis-server`", got)
	}
}

func TestServerThatExitsIsReportedWithItsOutput(t *testing.T) {
	t.Parallel()

	redistest.Start(t) // skips where there is no server

	got := outcome(t, func(tb testing.TB) { tb.Helper(); redistest.Start(tb, "--no-such-option", "1") })
	require.Contains(t, got, "fatal: redistest: the server exited")
	require.Contains(t, got, "no-such-option")
}

// outcome calls start for a test that it makes up, and returns how that test ended.
func outcome(t *testing.T, start func(tb testing.TB)) string {
	t.Helper()

	recorder := &recorder{TB: t}
	done := make(chan struct{})

	go func() {
		defer close(done)

		start(recorder)
	}()

	<-done

	return recorder.ended
}

type recorder struct {
	testing.TB

	ended string
}

func (r *recorder) Fatal(args ...any) { r.end("fatal: " + fmt.Sprint(args...)) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.end("fatal: " + fmt.Sprintf(format, args...))
}

func (r *recorder) Skipf(format string, args ...any) { r.end("skip: " + fmt.Sprintf(format, args...)) }

func (r *recorder) end(how string) {
	r.ended = how

	runtime.Goexit()
}
