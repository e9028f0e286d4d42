package redisstore_test

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A command is one that a server ran for a client, and those that it ran itself, if it was a script.
type command struct {
	name   string // in lower case
	args   []string
	inside []command
}

var (
	monitored = regexp.MustCompile(`^\+[0-9.]+ \[\d+ (\S+)\] (.*)$`)
	quoted    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// watch listens to everything that a server does until stop is called, which returns it in order.
func watch(t *testing.T, rdb *redis.Client) (stop func() []command) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", rdb.Options().Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprint(conn, "MONITOR\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	ok, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "+OK", strings.TrimSpace(ok))
	return func() []command {
		t.Helper()
		const end = "that was all"
		require.NoError(t, rdb.Echo(t.Context(), end).Err())
		var all []command
		for {
			line, err := in.ReadString('\n')
			require.NoError(t, err)
			m := monitored.FindStringSubmatch(strings.TrimSpace(line))
			require.NotNil(t, m, line)
			var words []string
			for _, w := range quoted.FindAllString(m[2], -1) {
				word, err := strconv.Unquote(w)
				require.NoError(t, err, w)
				words = append(words, word)
			}
			did := command{name: strings.ToLower(words[0]), args: words[1:]}
			switch {
			case m[1] == "lua":
				script := &all[len(all)-1]
				script.inside = append(script.inside, did)
			case did.name == "echo" && did.args[0] == end:
				return all
			default:
				all = append(all, did)
			}
		}
	}
}
