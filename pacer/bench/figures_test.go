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

// figuresPage is the page that repeats what matters most of the report, beside the report's folder.
const figuresPage = "figures.md"

// The tables of docs/figures.md that compare Headway with others are made of the report in docs/benchmarks.
func TestTheFiguresAreThoseOfTheReport(t *testing.T) {
	t.Parallel()
	docs := filepath.Join("..", "..", "docs")
	page, made := figures(t, filepath.Join(docs, "benchmarks"))
	have := strings.Split(page, "\n")
	for i, line := range strings.Split(made, "\n") {
		require.Equal(t, line, have[i], "make bench writes the report and this line of docs/figures.md")
	}
}

// writeFigures writes the tables of the page beside the report's folder, if there is one.
func writeFigures(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "..", figuresPage)
	if _, err := os.Stat(path); err != nil {
		return
	}
	_, made := figures(t, dir)
	require.NoError(t, os.WriteFile(path, []byte(made), 0o644))
}

// figures returns the page of figures as it is, and with its tables made of the report in a folder.
func figures(t *testing.T, dir string) (page, made string) {
	t.Helper()
	report, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(dir, "..", figuresPage))
	require.NoError(t, err)
	r := read(t, string(report))
	made = string(b)
	for head, rows := range map[string][][]string{
		"| a decision | Headway |": r.decisions(),
		"| four processes against a strict upstream | Headway | best peer without a refusal | a peer with its usual settings |": r.fleets(),
	} {
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

// A report is what the tables of benchmarks.md say.
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
