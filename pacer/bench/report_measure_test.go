//go:build measure

package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReport measures everything and writes the report. Without HEADWAY_BENCH it makes next to no decisions, and only what
// does not depend on time is checked. The race detector draws no charts. The whole report also goes into the tables of docs/benchmarks/summary.md.
func TestReport(t *testing.T) {
	dir := os.Getenv(outputEnv)
	full := dir != ""
	if !full {
		dir = t.TempDir()
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	var sections []section
	whole := true // rather than some parts, by -run TestReport/precision
	for _, part := range []struct {
		name    string
		measure func(*testing.T, bool) []section
	}{
		{"redis", single(redisSection)},
		{"memory", single(memorySection)},
		{"contention", single(contentionSection)},
		{"transport", single(transportSection)},
		{"lines", single(linesSection)},
		{"sleeping", single(growthOfSleeping)},
		{"waiters", single(growthOfLines)},
		{"policies", single(growthOfPolicies)},
		{"gaps", single(growthOfGaps)},
		{"keys", single(growthOfKeys)},
		{"precision", single(precisionSection)},
		{"fleet", fleetSections},
	} {
		ran := false
		require.True(t, t.Run(part.name, func(t *testing.T) {
			ran = true
			sections = append(sections, part.measure(t, full)...)
		}))
		whole = whole && ran
	}
	report := markdown(t, sections)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "benchmarks.md"), []byte(report), 0o644))
	if !underRace {
		for _, s := range sections {
			for _, c := range s.charts {
				require.NoError(t, c.write(dir), c.file)
			}
		}
	}
	if whole && full {
		writeFigures(t, dir)
	}
	t.Log("\n" + report)
	checkReport(t, dir, sections)
	if whole && !full {
		checkPromises(t, sections)
	}
}

// The requests that the figures speak of are those that the server saw.
func TestRequestsAreCounted(t *testing.T) {
	b := newBackend(t)
	calls := func() int64 {
		info, err := b.rdb.Info(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		b.sent.requests.Add(-1)
		n := int64(0)
		for _, name := range []string{"cmdstat_eval", "cmdstat_evalsha"} {
			first, _, _ := strings.Cut(strings.TrimPrefix(parseInfo(info)[name], "calls="), ",")
			one, _ := strconv.ParseInt(first, 10, 64)
			n += one
		}
		return n
	}
	for _, c := range overRedis(t, b) {
		if c.name == ping || c.name == throttledGCRA { // which send more than scripts
			continue
		}
		t.Run(fmt.Sprint(c.name, " ", c.limits), func(t *testing.T) {
			const n = 20
			one := course{goroutines: 1}
			one.play(t, &c, 1) // the server learns the script
			sent, heartbeats, seen := b.sent.requests.Load(), b.sent.heartbeats.Load(), calls()
			one.play(t, &c, n)
			sent, seen = b.sent.requests.Load()-sent, calls()-seen
			heartbeats = b.sent.heartbeats.Load() - heartbeats
			each := int64(max(1, c.limits))
			if strings.HasPrefix(c.name, headway) {
				each = 1
			}
			require.Equal(t, n*each, sent)
			// Requests on their way in the background are not counted yet, or were not when this began: of each of three Pacers one of each
			// script, at most.
			require.InDelta(t, sent+heartbeats, seen, 9)
		})
	}
}
