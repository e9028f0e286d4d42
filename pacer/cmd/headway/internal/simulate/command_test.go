package simulate_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/simulate"
)

// command runs the command as the program does.
func command(t *testing.T, in string, args ...string) (out string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "headway", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().Bool("json", false, "")
	root.AddCommand(simulate.Command())
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetIn(strings.NewReader(in))
	root.SetArgs(append([]string{"simulate"}, args...))
	err = root.ExecuteContext(t.Context())
	return b.String(), err
}

// numbers runs the command and reads its JSON.
func numbers(t *testing.T, in string, args ...string) *simulate.Result {
	t.Helper()
	out, err := command(t, in, append(args, "--json")...)
	require.NoError(t, err)
	var r simulate.Result
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	return &r
}

func TestCommand(t *testing.T) {
	t.Parallel()

	out, err := command(t, "", "--policy", "quota: 300 per window of 1h", "--policy", "2 per 1s, per tenant", "--rate", "1", "--steady",
		"--for", "1h", "--tenants", "2", "--greedy", "0.75")
	require.NoError(t, err)
	for _, line := range []string{
		"1h from 2026-01-01 00:00:00 UTC, in virtual time",
		"offered   3600 calls, 1.00/s",
		"admitted  300 calls, 0.08/s",
		"refused   3240 calls, 90.0 % of the calls offered",
		"60 at the end",
		"waits     p50 200µs",
		"quota: 300 per window of 1h ",
		"tenant, the greedy one ",
		"tenant, each of the others ",
		"quota is spent after 5m, at 2026-01-01 00:05:00; calls can start again at 2026-01-01 01:00:00.",
		"calls admitted, per second\n",
		"calls offered, per second\n",
		"remaining of quota\n",
	} {
		require.Contains(t, out, line)
	}
	for line := range strings.SplitSeq(out, "\n") {
		require.LessOrEqual(t, len([]rune(line)), 130)
	}
	without, err := command(t, "", "--policy", "300 per window of 1h", "--no-chart")
	require.NoError(t, err)
	require.NotContains(t, without, "per second\n")
}

func TestJSON(t *testing.T) {
	t.Parallel()

	r := numbers(t, "", "--policy", "at most 50 in any 1s", "--processes", "4", "--for", "1m", "--seed", "3")
	require.InDelta(t, 49.5, r.Goodput, 0.1)
	require.EqualValues(t, 3, r.Seed)
	require.InDelta(t, 60, r.For, 0)
	require.Len(t, r.Chart.Admitted, 60)
	require.Equal(t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), r.Start)
}

const file = `{
  "policies": ["100 per 1s, burst 10, 80 % for lane batch", "1000 per window of 1h, per tenant"],
  "loads": [
    {"name": "jobs", "processes": 2, "workers": 8, "callTime": "50ms", "lane": "batch"},
    {"name": "people", "rate": 5, "tenants": 3, "exponential": true}
  ],
  "for": "1m",
  "start": "2026-03-29T00:30",
  "maxWait": "10s"
}`

func TestFile(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "plan.json")
	require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	r := numbers(t, "", "--file", path)
	require.Len(t, r.Policies, 3)
	require.Equal(t, "per-second.batch", r.Policies[1].Policy)
	require.Equal(t, 4, r.Policies[2].Limits) // of jobs and people-1 to people-3
	require.Equal(t, []string{"jobs, in lane batch", "people"}, []string{r.Loads[0].Name, r.Loads[1].Name})
	require.InDelta(t, 60, r.For, 0)

	// Flags precede the file, policies are added to its own, and - is stdin.
	r = numbers(t, file, "--file", "-", "--for", "30s", "--policy", "5 in flight")
	require.InDelta(t, 30, r.For, 0)
	require.Equal(t, "2026-03-29T00:30:00Z", r.Start.Format(time.RFC3339))
	require.Len(t, r.Policies, 4)

	// Without loads, flags describe the callers.
	r = numbers(t, `{"policies": ["10 per 1s"]}`, "--file", "-", "--rate", "5", "--steady", "--for", "10s")
	require.EqualValues(t, 50, r.Admitted)
}

// A mistake in a command line or a file is reported, and ends it with exit code 2.
func TestBadCommands(t *testing.T) {
	t.Parallel()

	second := `{"policies": ["10 per 1s"]`
	for name, one := range map[string]struct {
		in      string
		args    []string
		reports string
	}{
		"nothing":       {"", nil, `policy is missing: give at least one, such as --policy "50 per 1s"`},
		"policy":        {"", []string{"--policy", "many"}, "many"},
		"scope":         {"", []string{"--policy", "1 per 1s", "--scope", "acme"}, `scope is "acme": must be a name and a value`},
		"no file":       {"", []string{"--file", "/does/not/exist"}, `the file "/does/not/exist" cannot be read`},
		"empty":         {"", []string{"--file", "-"}, "is empty"},
		"no JSON":       {"policies: x", []string{"--file", "-"}, `the file "-" is not a plan`},
		"unknown":       {second + `, "rate": 5}`, []string{"--file", "-"}, `unknown field "rate"`},
		"of a load":     {second + `, "loads": [{"speed": 5}]}`, []string{"--file", "-"}, `unknown field "speed"`},
		"duration":      {second + `, "for": "long"}`, []string{"--file", "-"}, `"long" is not a duration: write it like 90s`},
		"number":        {second + `, "for": 90}`, []string{"--file", "-"}, "number"},
		"bad policy":    {`{"policies": ["x"]}`, []string{"--file", "-"}, "x"},
		"more":          {second + `}{}`, []string{"--file", "-"}, "there is more after the JSON object"},
		"huge":          {second + strings.Repeat(" ", 1<<20) + `}`, []string{"--file", "-"}, "is longer than 1048576 bytes"},
		"no loads":      {second + `, "loads": []}`, []string{"--file", "-"}, "loads is empty"},
		"which load":    {second + `, "loads": [{}]}`, []string{"--file", "-", "--rate", "5"}, "rate is given: the file has loads"},
		"unknown lanes": {"", []string{"--policy", "10 per 1s", "--lane", "x"}, "no policy has that lane"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := command(t, one.in, one.args...)
			require.ErrorContains(t, err, one.reports)
			var coded interface{ ExitCode() int }
			require.ErrorAs(t, err, &coded)
			require.Equal(t, 2, coded.ExitCode())
		})
	}
	_, err := command(t, "", "--for", "soon")
	require.ErrorContains(t, err, `"soon" is not a duration`)
}

// FuzzFile: a file from anywhere gives a plan or an error.
func FuzzFile(f *testing.F) {
	f.Add(file)
	f.Add(`{"policies": ["1 in flight"], "loads": [{"greedy": 1e-300, "tenants": 2}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = command(t, text, "--file", "-", "--for", "1ms", "--no-chart")
	})
}
