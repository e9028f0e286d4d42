package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/cli"
)

// A file without mistakes is shown.
func TestCheck(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "headway.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
stores: {shared: {redis: "cache.internal:6379", passwordEnv: HEADWAY_TEST_NOT_SET}}
upstreams:
  crm:
    store: shared
    policies: ["peak: 25/s, burst 10, per tenant", 100000 daily (UTC), "all: 90/s"]
    overrides: [{policy: peak, for: acme, limit: 50/s}]
    hosts: api.crm.example
  hub: {profile: github, policies: none}
`), 0o600))
	require.Equal(t, outcome{cli.ExitDone, `UPSTREAM  STORE   PROFILE  POLICIES
crm       shared  ietf     peak: 25 per 1s, burst 10, per tenant (some keys have their own limits)
                           daily: 100000 daily (UTC)
                           all: 90 per 1s, burst 2
hub       memory  github   -
`, ""}, run(t, "check", path))

	got := run(t, "check", path, "--json")
	require.Equal(t, cli.ExitDone, got.code)
	require.JSONEq(t, `{"file": "`+path+`", "upstreams": [
		{"upstream": "crm", "store": "shared", "profile": "ietf", "hosts": ["api.crm.example"], "policies": [
			{"name": "peak", "text": "peak: 25 per 1s, burst 10, per tenant", "overrides": true},
			{"name": "daily", "text": "daily: 100000 daily (UTC)", "overrides": false},
			{"name": "all", "text": "all: 90 per 1s, burst 2", "overrides": false}
		]},
		{"upstream": "hub", "store": "memory", "profile": "github", "hosts": [], "policies": []}
	]}`, got.out)
}

// Each mistake is a line that editors and CI understand.
func TestCheckOfAFileWithMistakes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "headway.yaml")
	require.NoError(t, os.WriteFile(path, []byte("upstreams:\n  crm:\n    maxWait: \"\\e[31msoon\"\n    polices: [25/s]\n"), 0o600))
	got := run(t, "check", path)
	require.Equal(t, outcome{
		cli.ExitFailed, "",
		path + `:3:14: upstreams.crm.maxWait: is not a duration: write one such as 250ms, 30s or 1m30s, or forever` + "\n" +
			path + `:4:5: upstreams.crm: an unknown field: the fields are backOff, hosts, ignoreCounts, jitter, leave, maxLate, maxPause, maxWait, ` +
			"outage, overrides, policies, processes, profile, store, storeTimeout, url\n",
	}, got)

	got = run(t, "check", path, "--json")
	require.Equal(t, cli.ExitFailed, got.code)
	require.Empty(t, got.out)
	var failed struct {
		Error    string
		Code     int
		Mistakes []struct {
			File, Path, Error string
			Line, Column      int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.err), &failed))
	require.Equal(t, "the file has 2 mistakes", failed.Error)
	require.Equal(t, cli.ExitFailed, failed.Code)
	require.Len(t, failed.Mistakes, 2)
	require.Equal(t, "upstreams.crm.maxWait", failed.Mistakes[0].Path)
	require.Equal(t, []int{3, 14}, []int{failed.Mistakes[0].Line, failed.Mistakes[0].Column})
	require.NotContains(t, failed.Mistakes[0].Error, path)

	got = run(t, "check", path+"x")
	require.Equal(t, outcome{cli.ExitFailed, "", path + "x: cannot be read: no such file or directory\n"}, got)
	require.Equal(t, cli.ExitUsage, run(t, "check").code)
}
