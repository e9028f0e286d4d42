package redistest

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the sentinel of [StartSentinel] calls its master.
const MasterName = "headway"

// StartSentinel runs a server and one sentinel that watches it, and returns a client that finds the server
// through the sentinel; the test's end kills both.
func StartSentinel(tb testing.TB) *redis.Client {
	tb.Helper()

	master := Start(tb)
	host, masterPort, err := net.SplitHostPort(master.Addr)
	if err != nil {
		tb.Fatal(err)
	}

	sentinel := &Server{tb: tb, binary: binary(tb), dir: tb.TempDir()}
	tb.Cleanup(sentinel.cleanup)

	port, err := freePort(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}

	// A sentinel rewrites its configuration: it must be a file.
	config := filepath.Join(sentinel.dir, "sentinel.conf")
	text := "sentinel monitor " + MasterName + " " + host + " " + masterPort + " 1\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}

	sentinel.Addr = loopback(port)
	sentinel.args = []string{
		config, "--sentinel",
		"--port", strconv.Itoa(port),
		"--dir", sentinel.dir,
		"--bind", "127.0.0.1",
		"--protected-mode", "no",
	}

	sentinel.mu.Lock()
	sentinel.running, err = launch(tb.Context(), sentinel)
	sentinel.mu.Unlock()
	if err != nil {
		tb.Fatal(err)
	}

	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    MasterName,
		SentinelAddrs: []string{sentinel.Addr},
	})
	tb.Cleanup(func() { _ = client.Close() })

	return client
}
