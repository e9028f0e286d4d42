package bench_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A section is one part of the report.
type section struct {
	title   string
	text    string     // Markdown before the table: what was measured, and how
	head    []string   // of the table
	rows    [][]string // of the table
	charts  []chart    // written as SVG files beside the report
	targets []target   // rows of the table of targets
}

// number shows a figure with three significant digits.
func number(x float64) string {
	digits := 0
	x += 0 // no −0
	if x != 0 && !math.IsInf(x, 0) && !math.IsNaN(x) {
		digits = max(0, 2-int(math.Floor(math.Log10(math.Abs(x)))))
	}
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if point := strings.IndexByte(s, '.'); point < 0 {
		for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
	}
	return s
}

// floor rounds a count per decision down to a tenth: what the background adds is not the decision's.
func floor(x float64) float64 { return math.Floor(x*10) / 10 }

// whole shows such a count.
func whole(x float64) string { return number(floor(x)) }

// outputEnv names the environment variable with the folder that the report goes to. It also enables measurements of full length, which take
// minutes.
const outputEnv = "HEADWAY_BENCH"

func single(part func(*testing.T, bool) section) func(*testing.T, bool) []section {
	return func(t *testing.T, full bool) []section {
		t.Helper()
		return []section{part(t, full)}
	}
}

// checkReport checks what a report has, whatever the figures are.
func checkReport(t *testing.T, dir string, sections []section) {
	t.Helper()
	written, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	require.NoError(t, err)
	report := string(written)
	for _, bad := range []string{"NaN", "Inf", "!(", "%!"} {
		require.NotContains(t, strings.ReplaceAll(report, "![", ""), bad)
	}
	require.Contains(t, report, command)
	for _, s := range sections {
		require.NotEmpty(t, s.rows, s.title)
		for _, row := range s.rows {
			require.Len(t, row, len(s.head), s.title)
		}
		for _, goal := range s.targets {
			require.Contains(t, report, "| "+goal.what+" | "+goal.want+" | "+goal.got+" | "+goal.timers()+" | "+goal.verdict()+" |")
		}
		for _, c := range s.charts {
			require.Contains(t, report, "]("+c.file+")")
			if !underRace {
				checkSVG(t, filepath.Join(dir, c.file), c)
			}
		}
	}
}

// checkPromises checks that every target exists, and the one that does not depend on time.
func checkPromises(t *testing.T, sections []section) {
	t.Helper()
	targets := make(map[string]target)
	for _, s := range sections {
		for _, goal := range s.targets {
			require.NotContains(t, targets, goal.what, "two targets of one name")
			targets[goal.what] = goal
		}
	}
	for _, what := range promised {
		require.Contains(t, targets, what)
	}
	alone := targets["Requests to Redis per decision, 3 limits, 1 goroutine"]
	require.True(t, alone.met, "a lone caller needs one request for a stack: got %s", alone.got)
}

// promised are the targets that a report has, those of fleets aside.
var promised = []string{
	"Redis CPU per decision, 1 limit, 1 goroutine, ÷ redis_rate",
	"Redis CPU per decision, 3 limits, 1 goroutine, ÷ redis_rate asked three times",
	"Redis CPU per decision, 3 limits, 64 goroutines, ÷ redis_rate asked three times",
	"Latency, 3 limits, 1 goroutine, ÷ EVALSHA of an empty script",
	"Decisions per second, 3 limits, 64 goroutines, ÷ redis_rate",
	"Requests to Redis per decision, 3 limits, 1 goroutine",
	"Requests to Redis per decision, 3 limits, 64 goroutines",
	"Allocations per Wait over Redis, 3 limits, 1 goroutine",
	"Wait in memory, 1 limit, ÷ a Wait of x/time/rate",
	"Allocations per Wait in memory, 1 limit",
	"Wait in memory, 3 limits, ÷ one Wait of x/time/rate",
	"Allocations per Wait in memory, 3 limits",
	"Wait in memory with 100,000 keys, a goroutine for each core, ÷ a sync.Map of x/time/rate limiters",
	"Wait in memory with 100,000 keys, 1,000 goroutines, ÷ a sync.Map of x/time/rate limiters",
	"Allocations that the transport adds to a bare RoundTripper",
	"Time that the transport adds to a bare RoundTripper, µs",
	"Cost by sleeping calls, in memory, no faster than a logarithm: k of N^k",
	"Cost by sleeping calls, Redis CPU, no faster than a logarithm: k of N^k",
	"Cost by queued calls, in memory, no faster than a logarithm: k of N^k",
	"Cost by queued calls, Redis CPU, no faster than a logarithm: k of N^k",
	"Cost by policies, in memory, no faster than linearly: k of N^k",
	"Cost by policies, Redis CPU, no faster than linearly: k of N^k",
	"Cost by gaps, any fits, in memory, no faster than a logarithm: k of N^k",
	"Cost by gaps, any fits, Redis CPU, no faster than a logarithm: k of N^k",
	"Cost by gaps, the last fits, in memory, no faster than a logarithm: k of N^k",
	"Cost by gaps, the last fits, Redis CPU, no faster than a logarithm: k of N^k",
	"Cost by gaps, none fits, in memory, no faster than a logarithm: k of N^k",
	"Cost by gaps, none fits, Redis CPU, no faster than a logarithm: k of N^k",
	"Cost by keys, in memory, no faster than a logarithm: k of N^k",
	"Cost by keys, Redis CPU, no faster than a logarithm: k of N^k",
	"Calls over Redis that went before their slots",
}

// checkSVG checks that a file is well-formed and that every bar, or mark on a line, is drawn in its colour.
func checkSVG(t *testing.T, path string, c chart) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	drawn := make(map[string]int) // by style
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, path)
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "path" {
			continue
		}
		for _, a := range start.Attr {
			require.NotContains(t, a.Value, "NaN", path)
			if a.Name.Local == "style" {
				drawn[a.Value]++
			}
		}
	}
	colours := 0
	for _, s := range c.series {
		if s.guide {
			continue
		}
		r, g, b, _ := palette[colours%len(palette)].RGBA()
		colours++
		points := len(s.ys)
		for i := range s.xs {
			if c.logX && s.xs[i] <= 0 {
				points--
			}
		}
		style := fmt.Sprintf("fill:#%02X%02X%02X", r>>8, g>>8, b>>8)
		require.Greater(t, drawn[style], points, "%s: %s and its legend", path, s.name)
	}
}
