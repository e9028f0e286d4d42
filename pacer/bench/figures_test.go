package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A quoting page repeats some of the report. Its path begins in the report's folder.
type quotingPage struct {
	path    string
	tables  func(report) map[string][][]string // by the line of their heads
	phrases func(report) map[string]string     // what stands in place of what a pattern matches
}

var quotingPages = []quotingPage{
	{"summary.md", func(r report) map[string][][]string {
		return map[string][][]string{
			"| a decision | Headway |": r.decisions(),
			"| four processes against a strict upstream | Headway | best peer without a refusal | a peer with its usual settings |": r.fleets(),
		}
	}, nil},
	{"../redis.md", func(r report) map[string][][]string {
		return map[string][][]string{"| a decision about three limits | Redis CPU per decision | decisions per second |": r.sizes()}
	}, nil},
	{"../../README.md", nil, report.summary},
}

// The pages' quotes of the report in docs/benchmarks are made from it.
func TestTheFiguresAreThoseOfTheReport(t *testing.T) {
	t.Parallel()
	for _, p := range quotingPages {
		page, made := figures(t, filepath.Join("..", "..", "docs", "benchmarks"), p)
		have := strings.Split(page, "\n")
		for i, line := range strings.Split(made, "\n") {
			require.Equal(t, line, have[i], "make bench writes the report and this line of %s", p.path)
		}
	}
}

// writeFigures writes what pages quote of the report in a folder, if it is that of the documentation.
func writeFigures(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, quotingPages[0].path)); err != nil {
		return
	}
	for _, p := range quotingPages {
		_, made := figures(t, dir, p)
		require.NoError(t, os.WriteFile(filepath.Join(dir, p.path), []byte(made), 0o644))
	}
}

// figures returns a page, and the same page with its quotations from the report in a folder.
func figures(t *testing.T, dir string, p quotingPage) (page, made string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(dir, p.path))
	require.NoError(t, err)
	r := read(t, string(text))
	made = string(b)
	if p.phrases != nil {
		for pattern, phrase := range p.phrases(r) {
			found := regexp.MustCompile(pattern)
			require.Len(t, found.FindAllString(made, -1), 1, pattern)
			made = found.ReplaceAllLiteralString(made, phrase)
		}
	}
	if p.tables == nil {
		return string(b), made
	}
	for head, rows := range p.tables(r) {
		before, rest, ok := strings.Cut(made, head+"\n")
		require.True(t, ok, head)
		_, after, ok := strings.Cut(rest, "\n\n")
		require.True(t, ok, head)
		lines := []string{head, strings.Repeat("| --- ", len(rows[0])) + "|"}
		for _, row := range rows {
			lines = append(lines, "| "+strings.Join(row, " | ")+" |")
		}
		made = before + strings.Join(lines, "\n") + "\n\n" + after
	}
	return string(b), made
}

// A report is the data of the tables of benchmarks.md.
type report struct {
	t        *testing.T
	sections map[string][][]string // by title: the head and the rows of its first table
}

func read(t *testing.T, text string) report {
	t.Helper()
	r := report{t, make(map[string][][]string)}
	for _, part := range strings.Split(text, "\n## ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "| ---") {
				continue
			}
			if inner, ok := strings.CutPrefix(strings.TrimSuffix(line, " |\n"), "| "); ok {
				r.sections[title] = append(r.sections[title], strings.Split(inner, " | "))
			} else if inner, ok := strings.CutPrefix(strings.TrimSuffix(line, " |\n"), "|  | "); ok {
				r.sections[title] = append(r.sections[title], append([]string{""}, strings.Split(inner, " | ")...))
			}
		}
	}
	return r
}

// section returns the head and the rows of a table whose title begins so.
func (r report) section(title string) (head []string, rows [][]string) {
	r.t.Helper()
	for full, table := range r.sections {
		if strings.HasPrefix(full, title) {
			return table[0], table[1:]
		}
	}
	require.Fail(r.t, "the report has no table "+title)
	return nil, nil
}

// get returns what a table has in a column, in the row that begins with these cells.
func (r report) get(title, column string, cells ...string) string {
	r.t.Helper()
	head, rows := r.section(title)
	for _, row := range rows {
		if strings.Join(row[:len(cells)], "|") != strings.Join(cells, "|") {
			continue
		}
		for i, name := range head {
			if name == column {
				return row[i]
			}
		}
	}
	require.Fail(r.t, fmt.Sprintf("the report has no row %q or no column %q in table %q", cells, column, title))
	return ""
}

// micros shows nanoseconds as microseconds.
func (r report) micros(nanos string) string {
	r.t.Helper()
	x, err := strconv.ParseFloat(strings.ReplaceAll(nanos, ",", ""), 64)
	require.NoError(r.t, err)
	return number(x/1e3) + " µs"
}

// sizes are what decisions take of Redis.
func (r report) sizes() [][]string {
	r.t.Helper()
	row := func(what, who, goroutines string) []string {
		get := func(column string) string { return r.get("Decisions over Redis", column, who, "3", goroutines) }
		return []string{what, get("Redis CPU, µs") + " µs", get("decisions/s")}
	}
	const calendar = headway + ", one of them a calendar"
	return [][]string{
		row("one caller at a time", headway, "1"),
		row("64 goroutines of one process", headway, "64"),
		row("one caller, one limit is a `Daily` or `Monthly`", calendar, "1"),
		row("64 goroutines, one limit is a `Daily` or `Monthly`", calendar, "64"),
	}
}

// summary is the part in the README.
func (r report) summary() map[string]string {
	r.t.Helper()
	cpu, err := strconv.ParseFloat(r.get("Decisions over Redis", "÷ redis_rate", headway, "3", "64"), 64)
	require.NoError(r.t, err)
	const fleet = "Fleet: 50 calls per sliding second"
	require.Equal(r.t, "0", r.get(fleet, "429s", headway))
	return map[string]string{
		`They used [\d.]+ % of what`:          "They used " + r.get(fleet, "goodput ÷ allowed", headway) + " of what",
		`used [\d.]+ % of the Redis CPU time`: fmt.Sprintf("used %.1f %% of the Redis CPU time", 100*cpu),
	}
}

// decisions are what one decision costs.
func (r report) decisions() [][]string {
	r.t.Helper()
	redis := func(column, limits, goroutines string) string {
		return r.get("Decisions over Redis", column, headway, limits, goroutines)
	}
	rate := func(column, limits, goroutines string) string {
		return r.get("Decisions over Redis", column, "redis_rate v10", limits, goroutines)
	}
	memory := func(column, limits string) string { return r.get("Decisions in memory", column, headway, limits, "1") }
	keys := func(goroutines string) string {
		return r.get("Keys and lock contention", "÷ the sync.Map", headway, "100,000", goroutines)
	}
	trip := func(of, column string) string { return r.get("The transport", column, of) }
	const times = "÷ one Wait of x/time/rate"
	return [][]string{
		{
			"CPU of the Redis process, one caller: 1 limit; 3 limits",
			redis("÷ redis_rate", "1", "1") + " × redis_rate's; " + redis("÷ redis_rate", "3", "1") + " × that of three redis_rate decisions",
		},
		{
			"CPU of the Redis process, 64 goroutines: 3 limits",
			redis("÷ redis_rate", "3", "64") + " × that of three redis_rate decisions",
		},
		{
			"time, one caller: 3 limits",
			redis("÷ empty script", "3", "1") + " × an empty script (redis_rate " + rate("÷ empty script", "3", "1") + " ×)",
		},
		{
			"decisions per second, 3 limits, 64 goroutines",
			redis("decisions/s", "3", "64") + ": " + r.get("Targets", "measured", "Decisions per second, 3 limits, 64 goroutines, ÷ redis_rate") +
				" × redis_rate's",
		},
		{"requests to Redis per decision: one caller; 64 goroutines", redis("requests", "3", "1") + "; " + redis("requests", "3", "64")},
		{"allocations over Redis, 3 limits", redis("allocations", "3", "1") + " (redis_rate " + rate("allocations", "3", "1") + ")"},
		{
			"in memory, 1 limit; 3 limits",
			memory("ns per decision", "1") + " ns, " + memory("ns per decision", "3") + " ns, " + memory("allocations", "3") + " allocations: " +
				memory(times, "1") + " × and " + memory(times, "3") + " × one `Wait` of x/time/rate",
		},
		{
			"in memory, 100,000 tenants: 2 goroutines; 1,000 goroutines",
			keys("2") + " × and " + keys("1,000") + " × a sync.Map of x/time/rate limiters, which never evicts",
		},
		{
			"what `transport.New` adds to a bare RoundTripper; what `transport.NewClient` adds, which also retries",
			r.micros(trip(pacedTrip, "more than bare, ns")) + ", " + trip(pacedTrip, "more than bare") + " allocations; " +
				r.micros(trip(retryingTrip, "more than bare, ns")) + ", " + trip(retryingTrip, "more than bare"),
		},
	}
}

// fleets are what fleets of four processes did.
func (r report) fleets() [][]string {
	r.t.Helper()
	const goodput = "goodput ÷ allowed"
	ours := func(title string) string {
		return r.get(title, goodput, headway) + ", " + refusals(r.get(title, "429s", headway))
	}
	redisRate := func(title string) string { return r.get(title, goodput, "redis_rate, as it comes") }
	const (
		sliding, uneven, counted = "Fleet: 50 calls per sliding second", "Fleet: one process has nearly all", "Fleet: refused calls count"
		tenants, batch, killed   = "Fleet: 100 per second, 10 per second", "Fleet: a batch", "Fleet: Redis is killed"
	)
	own := r.get("Targets", "target", "Light tenants beside a greedy one, p99 wait")
	return [][]string{
		{
			"50 per sliding second, 16 goroutines each: goodput ÷ allowed", ours(sliding), r.best(sliding, goodput),
			"redis_rate " + redisRate(sliding) + ", " + refusals(r.get(sliding, "429s", "redis_rate, as it comes")),
		},
		{
			"one process has nearly all the load", ours(uneven), r.best(uneven, goodput),
			"x/time/rate, a quarter of the limit in each process: " + r.get(uneven, goodput, "x/time/rate, a fourth each"),
		},
		{"refused calls count against the limit", ours(counted), r.best(counted, goodput), "redis_rate " + redisRate(counted)},
		{
			"100/s, 10/s for each tenant, one of them greedy",
			ours(tenants) + "; light tenants' p99 wait " + r.get(tenants, "p99", headway) + ", " +
				strings.TrimPrefix(own, "within 20 % of their own line, ") + " with a queue of their own",
			r.best(tenants, goodput),
			"the script " + r.get(tenants, goodput, "wait-time GCRA, spaced") + ", " + refusals(r.get(tenants, "429s", "wait-time GCRA, spaced")) +
				"; redis_rate " + r.get(tenants, goodput, "redis_rate, lowered"),
		},
		{
			"a batch of 240 against 300 per 10 s and 60/s: time until it is done",
			r.get(batch, "drained", headway) + " with `AtMost`, " + r.get(batch, "drained", headway+", Sliding") +
				" with `Sliding`, which starts 60 at once; " + refusals(r.get(batch, "429s", headway)),
			r.get(batch, "drained", "wait-time GCRA, spaced") + ", the script, " + refusals(r.get(batch, "429s", "wait-time GCRA, spaced")),
			"redis_rate " + r.get(batch, "drained", "redis_rate, as it comes") + ", " + refusals(r.get(batch, "429s", "redis_rate, as it comes")),
		},
		{
			"Redis is killed: goodput ÷ allowed in the 3 s without Redis",
			r.get(killed, "Redis is away", headway) + ", " + refusals(r.get(killed, "429s", headway)) + ", " + r.get(killed, "failed", headway) + " calls fail",
			r.best(killed, "Redis is away") + ", " + r.get(killed, "failed", "wait-time GCRA, spaced") + " calls fail",
			"redis_rate " + r.get(killed, "Redis is away", "redis_rate, lowered"),
		},
	}
}

// refusals shows a cell of 429s: "55 (13.8 %)".
func refusals(cell string) string {
	count, part, ok := strings.Cut(cell, " (")
	if !ok && count == "0" {
		return "no 429"
	}
	return strings.TrimSuffix(part, ")") + " of its calls refused"
}

// best returns the most that a peer reached in a column without a 429.
func (r report) best(title, column string) string {
	r.t.Helper()
	_, rows := r.section(title)
	most, name := -1.0, ""
	for _, row := range rows {
		if strings.HasPrefix(row[0], headway) || r.get(title, "429s", row[0]) != "0" {
			continue
		}
		x, err := strconv.ParseFloat(strings.TrimSuffix(r.get(title, column, row[0]), " %"), 64)
		require.NoError(r.t, err)
		if x > most {
			most, name = x, row[0]
		}
	}
	if name == "" {
		return "no such peer"
	}
	named := map[string]string{
		"wait-time GCRA, spaced": "the script", "redis_rate, lowered": "redis_rate set to a lower limit",
		"throttled, lowered": "throttled set to a lower limit", "x/time/rate, a fourth each": "x/time/rate, a quarter of the limit in each process",
	}
	if known, ok := named[name]; ok {
		name = known
	}
	return fmt.Sprintf("%.1f %%, %s", most, name)
}
