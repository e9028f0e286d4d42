package redisstore_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/deadline"
	"github.com/headway-go/headway/pacer/redisstore"
)

// A handshake is not a call: a distant server has the time of a request once it has a connection, and for each script that it does not know
// yet. A server that no longer answers then has no more than that.
func TestAHandshakeIsNotACall(t *testing.T) {
	t.Parallel()
	const way, timeout = 200 * time.Millisecond, 250 * time.Millisecond
	for _, punctual := range []bool{false, true} {
		for name, c := range map[string]struct {
			silent string // a command that is never answered
			takes  time.Duration
		}{
			"far away": {"", 4 * way}, "silent": {"evalsha", 2*way + timeout}, "silent from the start": {"hello", 4 * timeout},
		} {
			synctest.Test(t, func(t *testing.T) {
				rdb := redis.NewClient(&redis.Options{
					Addr: "127.0.0.1:6379", Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: punctual,
					Dialer: func(context.Context, string, string) (net.Conn, error) {
						time.Sleep(way)
						near, far := net.Pipe()
						go func() {
							command := make([]byte, 1<<16)
							for {
								n, err := far.Read(command)
								if err != nil {
									return
								}
								sent, reply := string(command[:n]), "*0\r\n"
								switch {
								case c.silent != "" && strings.Contains(sent, c.silent):
									continue
								case strings.Contains(sent, "hello"):
									reply = "-ERR unknown command\r\n"
								case strings.Contains(sent, "evalsha"):
									reply = "-NOSCRIPT no\r\n"
								}
								time.Sleep(way)
								_, _ = far.Write([]byte(reply))
							}
						}()
						return near, nil
					},
				})
				defer rdb.Close()
				ctx := deadline.New(t.Context(), timeout, 4*timeout)
				defer ctx.End()
				start, done := time.Now(), make(chan error, 1)
				go func() {
					_, err := must(redisstore.New(rdb)).Upstreams(ctx)
					done <- err
				}()
				var err error
				select {
				case err = <-done:
				case <-ctx.Done():
					err = ctx.Err()
				}
				require.Equal(t, c.takes, time.Since(start), name)
				require.Equal(t, c.silent == "", err == nil, "%s: %v", name, err)
			})
		}
	}
}
