package luascripts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/luascripts"
)

// Every file begins with its contract, and no script changes the clients' numbers on the wire.
func TestContracts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	require.Len(t, files, 19)
	for _, name := range files {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		text := string(source)
		require.True(t, strings.HasPrefix(text, "-- "+name+": "), name)
		require.NotContains(t, strings.ReplaceAll(text, "tostring, which", ""), "tostring", "%s: it keeps 14 digits", name)
		var want []string
		switch name {
		case "reserve.lua", "cancel.lua", "report.lua", "status.lua", "beat.lua", "describe.lua", "index.lua", "enlist.lua", "upstreams.lua":
			want = []string{"-- KEYS ", "-- ARGV ", "-- Reply ", "-- TTL "}
		case "gcra.lua", "window.lua", "inflight.lua":
			want = []string{"-- KEYS ", "-- ARGV ", "-- TTL "}
		}
		for _, head := range want {
			require.Contains(t, text, head, name)
		}
	}
}

func TestScriptsAreJoinedWithoutComments(t *testing.T) {
	t.Parallel()
	s := luascripts.New()
	for _, source := range []string{s.Reserve, s.Late, s.Cancel, s.Report, s.Status, s.Beat} {
		require.True(t, strings.HasPrefix(source, "local function clock()"))
		require.Contains(t, source, "redis.call('TIME')")
		for line := range strings.Lines(source) {
			require.NotEmpty(t, strings.TrimSpace(line))
			require.False(t, strings.HasPrefix(line, "--"), line)
		}
	}
	fake := luascripts.WithClock("local function clock() return 5 end")
	require.NotContains(t, fake.Reserve, "TIME")
}
