package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// clientLog is what clients log, of all tests.
type clientLog struct {
	mu    sync.Mutex
	lines []string
}

// clientLines has what clients have logged since the tests began.
var clientLines clientLog

// Printf keeps a line.
func (l *clientLog) Printf(_ context.Context, format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, v...))
}

// about returns the lines that name an address.
func (l *clientLog) about(addr string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, addr) {
			lines = append(lines, line)
		}
	}
	return lines
}

// While Redis is away, its client's log gets a line or two, not some every second, and the process comes back soon.
func TestTheClientsLogWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, starts := range map[string]bool{"lost": true, "never reached": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
			t.Cleanup(func() { require.NoError(t, rdb.Close()) })
			p, err := pacer.New(pacer.Config{
				Upstream: "test", Store: must(redisstore.New(rdb)), Policies: []policies.Policy{policies.PerSecond(100).Burst(1)}, Processes: 1,
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			if starts {
				require.NoError(t, p.Wait(t.Context()))
				require.NoError(t, p.Wait(t.Context(), pacer.NotBefore(100*time.Millisecond)), "it waits, and listens")
				listening(t, server.Client(), 1)
			}
			server.Stop()
			for range 150 { // in its share, of 100 a second
				require.NoError(t, p.Wait(t.Context()))
			}
			require.LessOrEqual(t, len(clientLines.about(server.Addr)), 4, clientLines.about(server.Addr))
			server.Restart()
			require.Eventually(t, func() bool {
				return p.Wait(t.Context()) == nil && server.Client().Exists(t.Context(), "pacer:10:{test}").Val() == 1
			}, patience, time.Millisecond)
		})
	}
}
