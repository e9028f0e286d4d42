package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/headway-go/headway/examples/zendesk/standin"
)

// A result is the outcome of a run.
type result struct {
	config  *config
	meter   *meter
	elapsed time.Duration

	// For all copies by the stand-in's count; for this copy by its own with the real API.
	admitted, refused     int
	admittedAt, refusedAt []int // by second
	refusedBy             map[string]int
}

// count fills in the calls of a run, from the stand-in's records before and after it.
func (r *result) count(before, after standin.Stats) {
	r.refusedBy = map[string]int{}
	from := int(before.UptimeMS / 1000)
	bins := r.bins()
	r.admittedAt, r.refusedAt = make([]int, bins), make([]int, bins)
	for name, row := range after.Tenants {
		r.admitted += row.Admitted - before.Tenants[name].Admitted
		r.refused += row.Refused - before.Tenants[name].Refused
		for limit, n := range row.RefusedBy {
			if n -= before.Tenants[name].RefusedBy[limit]; n > 0 {
				r.refusedBy[limit] += n
			}
		}
		addFrom(r.admittedAt, row.AdmittedPerSecond, from)
		addFrom(r.refusedAt, row.RefusedPerSecond, from)
	}
}

// countOwn fills in the calls of a run by this copy's own count.
func (r *result) countOwn() {
	r.admitted, r.refused = r.meter.total()
	r.admittedAt, r.refusedAt = make([]int, r.bins()), make([]int, r.bins())
	addFrom(r.admittedAt, r.meter.answered, 0)
	addFrom(r.refusedAt, r.meter.refusedAt, 0)
}

// bins returns how many whole seconds the run lasted, at least one.
func (r *result) bins() int {
	const almost = 50 * time.Millisecond
	return max(1, int((r.elapsed+almost)/time.Second))
}

// addFrom adds counts to sums, beginning with one of them.
func addFrom(sums, counts []int, from int) {
	for i := range sums {
		if from+i < len(counts) {
			sums[i] += counts[from+i]
		}
	}
}

// perSecond returns the limit of all accounts together.
func (c *config) perSecond() float64 { return float64(c.limit*c.tenants) / 60 }

// utilisation returns the used part of the limit.
func (r *result) utilisation() float64 {
	return float64(r.admitted) / (r.config.perSecond() * r.elapsed.Seconds())
}

// print writes the chart and the numbers.
func (r *result) print(out io.Writer) {
	c, m := r.config, r.meter
	line := func(label, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "  %-12s %s\n", label, fmt.Sprintf(format, args...))
	}
	_, _ = fmt.Fprintf(out, "\n%s\n\n", r.chart(isTerminal(out)))

	own, ownRefused := m.total()
	line("calls", "%d admitted in %.1f s", r.admitted, r.elapsed.Seconds())
	line("this copy", "%d (%d lists, %d gets, %d updates), %d 429s", own, m.lists, m.gets, m.updates, ownRefused)
	line("429s", "%s", r.refusals())
	if c.unpaced {
		line("waits", "not paced; slept %d times after 429s, %.1f s in all", len(m.slept), sum(m.slept).Seconds())
	} else {
		line("waits", "p50 %s, p95 %s, max %s", ms(quantile(m.waits, 0.5)), ms(quantile(m.waits, 0.95)), ms(quantile(m.waits, 1)))
	}
	line("utilisation", "%.1f %% of %s", 100*r.utilisation(), accounts(c))
	if m.failures > 0 {
		line("failures", "%d; the last: %v", m.failures, m.failure)
	}
	if m.announced != 0 && m.announced != c.limit {
		line("note", "the API says that the account has %d calls a minute: choose the -plan that fits", m.announced)
	}
}

// refusals names the limits that had no room.
func (r *result) refusals() string {
	s := strconv.Itoa(r.refused)
	var by []string
	for _, limit := range []string{"account", "peak", "tickets-index", "tickets-update", "ticket"} {
		if n := r.refusedBy[limit]; n > 0 {
			by = append(by, fmt.Sprintf("%s %d", limit, n))
		}
	}
	if len(by) > 0 {
		s += " (" + strings.Join(by, ", ") + ")"
	}
	return s
}

// chart draws the calls per second against the limit.
func (r *result) chart(colours bool) string {
	limit := make([]int, len(r.admittedAt))
	series := [][]float64{floats(limit), floats(r.admittedAt)}
	for i := range series[0] {
		series[0][i] = r.config.perSecond()
	}
	legends := []string{"limit ┈", "admitted ─"}
	palette := []asciigraph.AnsiColor{asciigraph.Green, asciigraph.Blue, asciigraph.Red}
	if r.refused > 0 {
		series, legends = append(series, floats(r.refusedAt)), append(legends, "429s ×")
	}
	for i, s := range series {
		if len(s) == 1 {
			series[i] = append(s, s[0]) // one point is no line
		}
	}
	height, top := scale(series)
	options := []asciigraph.Option{
		asciigraph.Height(height), asciigraph.Width(66), asciigraph.LowerBound(0), asciigraph.UpperBound(float64(top)), asciigraph.Precision(0),
		asciigraph.SeriesChars(asciigraph.CreateCharSet("┈"), asciigraph.DefaultCharSet, asciigraph.CreateCharSet("×")),
		asciigraph.Caption("calls per second: " + strings.Join(legends, ", ")),
	}
	if colours {
		options = append(options, asciigraph.SeriesColors(palette[:len(series)]...), asciigraph.SeriesLegends(legends...))
	}
	return asciigraph.PlotMany(series, options...)
}

// scale returns the height of the chart, in lines and in calls per second: each line is a whole number of calls.
func scale(series [][]float64) (lines, top int) {
	const most = 16
	highest := 1.0
	for _, s := range series {
		highest = max(highest, slices.Max(s))
	}
	top = int(math.Ceil(highest))
	each := (top + most - 1) / most
	lines = (top + each - 1) / each
	return lines, lines * each
}

func floats(ns []int) []float64 {
	out := make([]float64, len(ns))
	for i, n := range ns {
		out[i] = float64(n)
	}
	return out
}

func sum(ds []time.Duration) (total time.Duration) {
	for _, d := range ds {
		total += d
	}
	return total
}

// ms rounds for people.
func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// accounts describes what the limit is.
func accounts(c *config) string {
	if c.tenants == 1 {
		return fmt.Sprintf("%d calls a minute", c.limit)
	}
	return fmt.Sprintf("%d accounts with %d calls a minute each", c.tenants, c.limit)
}
