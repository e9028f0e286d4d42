package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/headway-go/headway/examples/salesforce/standin"
	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies/salesforce"
)

// A result is the outcome of a run.
type result struct {
	config   *config
	upstream *upstream
	meter    *meter
	tenants  []string
	elapsed  time.Duration

	stopped *pacer.LimitError // why the readers have ended; nil: time was over
	atStop  tally             // how things stood then
	spent   *pacer.LimitError // why the interactive calls have; nil: time was over
	last    line
	stats   standin.Stats // as the stand-in counted, for all copies; nothing for a real org
}

// end adds the final state.
func (r *result) end(ctx context.Context, p *pacer.Pacer) (*result, error) {
	r.elapsed = time.Since(r.meter.began)
	var err error
	if r.last, err = r.now(ctx, p); err != nil {
		return nil, err
	}
	if r.config.isReal() {
		return r, nil
	}
	if r.stats, err = r.upstream.stats(ctx); err != nil {
		return nil, fmt.Errorf("the stand-in has gone before this copy had ended: %w", err)
	}
	return r, nil
}

// print writes the chart and the numbers.
func (r *result) print(out io.Writer) {
	m := r.meter
	row := func(label, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "  %-12s %s\n", label, fmt.Sprintf(format, args...))
	}
	if len(m.usedAt) > 0 {
		_, _ = fmt.Fprintf(out, "\n%s\n\n", r.chart(isTerminal(out)))
	}
	row("day", "%s", r.day())
	for _, t := range r.tenants {
		row(t, "%d calls, %d records, waits p50 %s, max %s", m.calls[t], m.records[t], ms(quantile(m.waits[t], 0.5)), ms(quantile(m.waits[t], 1)))
	}
	row(interactive, "%d calls, waits p50 %s, max %s", m.calls[interactive],
		ms(quantile(m.waits[interactive], 0.5)), ms(quantile(m.waits[interactive], 1)))
	row("403s", "%s in %.1f s", r.refusals(), r.elapsed.Seconds())
	if r.stopped != nil {
		row("readers", "stopped by policy %q at %d used; %d interactive calls went afterwards",
			r.stopped.Policy, r.atStop.used, m.calls[interactive]-r.atStop.calls[interactive])
	}
	if m.tooSlow > 0 {
		row("too slow", "%d calls that took, or would have waited, longer than they may", m.tooSlow)
	}
	if m.failures > 0 {
		row("failures", "%d; the last: %v", m.failures, m.failure)
	}
	if r.spent != nil {
		row("error", "%v", r.spent)
	}
	_, _ = fmt.Fprintf(out, "\n%s\n", r.verdict(time.Now()))
}

// day returns who has used the calls.
func (r *result) day() string {
	s := fmt.Sprintf("%d of %d calls used", r.last.used, r.upstream.allocation)
	if r.config.isReal() {
		return s
	}
	return fmt.Sprintf("%d of %d calls used: %d by Headway, %d by another consumer",
		r.stats.Used, r.stats.Allocation, r.stats.Consumers[ownConsumer].Admitted, r.stats.Consumers[otherConsumer].Admitted)
}

// refusals counts this copy's 403s, and names the limits that had no room for calls of any copy.
func (r *result) refusals() string {
	s := strconv.Itoa(r.meter.refused)
	var by []string
	for _, limit := range []string{"daily", "concurrent", "peak"} {
		if n := r.stats.Consumers[ownConsumer].RefusedBy[limit]; n > 0 {
			by = append(by, fmt.Sprintf("%s %d", limit, n))
		}
	}
	if len(by) > 0 {
		s += " (of all copies: " + strings.Join(by, ", ") + ")"
	}
	return s
}

// verdict returns how the run ended, and when to come back.
func (r *result) verdict(now time.Time) string {
	switch e := r.spent; {
	case e == nil:
		return fmt.Sprintf("The run is over, and the day is not spent: %d calls are left, %d of them for readers.", r.last.left, r.last.readers)
	case r.meter.refused > 0:
		return fmt.Sprintf("The org has refused calls because the day is spent: ask again in %s, at %s.", about(e.Wait), clock(now.Add(e.Wait)))
	case e.Wait <= salesforce.DailyProbe: // what others have spent is believed for so long
		return fmt.Sprintf("The day is spent, as far as the org says. In %s, at %s, a call may ask whether there is more.", about(e.Wait), clock(now.Add(e.Wait)))
	default:
		return fmt.Sprintf("The day is spent: its first calls are forgotten after 24 hours. Come back in %s, at %s.", about(e.Wait), clock(now.Add(e.Wait)))
	}
}

// chart draws how the day was spent.
func (r *result) chart(colours bool) string {
	limit, stop := make([]float64, len(r.meter.usedAt)), make([]float64, len(r.meter.usedAt))
	for i := range limit {
		limit[i], stop[i] = float64(r.upstream.allocation), float64(share(int64(r.upstream.allocation), r.config.reserve))
	}
	series := [][]float64{limit, stop, r.meter.usedAt, r.meter.answered}
	legends := []string{"allocation ━", "readers stop ┈", "used ─", "by this copy ·"}
	for i, s := range series {
		if len(s) == 1 {
			series[i] = append(s, s[0]) // one point is no line
		}
	}
	options := []asciigraph.Option{
		asciigraph.Height(14), asciigraph.Width(66), asciigraph.LowerBound(0), asciigraph.UpperBound(limit[0]), asciigraph.Precision(0),
		asciigraph.SeriesChars(asciigraph.CreateCharSet("━"), asciigraph.CreateCharSet("┈"), asciigraph.DefaultCharSet, asciigraph.CreateCharSet("·")),
		asciigraph.Caption(fmt.Sprintf("calls of the day, over %.0f s: %s", r.elapsed.Seconds(), strings.Join(legends, ", "))),
	}
	if colours {
		options = append(options, asciigraph.SeriesLegends(legends...),
			asciigraph.SeriesColors(asciigraph.Red, asciigraph.Yellow, asciigraph.Blue, asciigraph.Green))
	}
	return asciigraph.PlotMany(series, options...)
}

// ms rounds for people.
func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// about rounds up to minutes.
func about(d time.Duration) string {
	minutes := int((d + time.Minute - 1) / time.Minute)
	return fmt.Sprintf("%dh%02dm", minutes/60, minutes%60)
}

// clock formats a time of day.
func clock(t time.Time) string { return t.Format("15:04 on Monday, 2 January") }
