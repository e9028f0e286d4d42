package redistest_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

func TestTLSServerSpeaksOnlyTLS(t *testing.T) {
	t.Parallel()

	server, config := redistest.StartTLS(t)
	require.NoError(t, server.Client().Set(t.Context(), "k", "v", 0).Err())

	own := connect(t, &redis.Options{Addr: server.Addr, TLSConfig: config})
	got, err := own.Get(t.Context(), "k").Result()
	require.NoError(t, err)
	require.Equal(t, "v", got)

	newcomer := connect(t, &redis.Options{Addr: server.Addr, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}})
	require.ErrorContains(t, newcomer.Ping(t.Context()).Err(), "certificate")

	plain := connect(t, &redis.Options{Addr: server.Addr})
	require.Error(t, plain.Ping(t.Context()).Err())

	server.Restart()
	require.ErrorIs(t, server.Client().Get(t.Context(), "k").Err(), redis.Nil)
}

func TestServerWithoutTLSSkips(t *testing.T) {
	redistest.Start(t) // skips where there is no server

	// The error of a server that was built without TLS.
	binary := filepath.Join(t.TempDir(), "redis-server-without-tls")
	script := `#!/bin/sh
echo "*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***"
echo "Reading the configuration file, at line 12"
echo ">>> 'tls-port \"6379\"'"
echo "Bad directive or wrong number of arguments"
exit 1
`
	require.NoError(t, os.WriteFile(binary, []byte(script), 0o700))

	t.Setenv("HEADWAY_REDIS_SERVER", binary)
	t.Setenv("CI", "true")

	got := outcome(t, func(tb testing.TB) { tb.Helper(); redistest.StartTLS(tb) })
	require.Equal(t, "skip: redistest: "+binary+" was built without TLS (make BUILD_TLS=yes)", got)
}

func connect(t *testing.T, options *redis.Options) *redis.Client {
	t.Helper()

	const patience = time.Minute // for a handshake on a busy machine

	options.MaxRetries, options.DialerRetries = -1, 1
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = patience, patience, patience
	client := redis.NewClient(options)

	t.Cleanup(func() { require.NoError(t, client.Close()) })

	return client
}
