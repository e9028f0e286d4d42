package simulate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
)

// The size of a chart, in characters, without its axes.
const (
	chartWidth  = maxPoints
	chartHeight = 8
)

// writeCharts draws the course of things.
func (r *Result) writeCharts(b *strings.Builder) {
	c := &r.Chart
	r.chart(b, "calls admitted, per second", c.Admitted)
	if r.Admitted < r.Offered-r.Offered/50 {
		r.chart(b, "calls offered, per second", c.Offered)
	}
	if r.Queue.Mean >= 0.5 {
		r.chart(b, "calls that wait", c.Waiting)
	}
	for i := range r.Policies { // in their order
		p := &r.Policies[i]
		left := c.Remaining[p.Policy]
		if len(left) == 0 || slices.Min(left) == slices.Max(left) {
			continue
		}
		values := make([]float64, len(left))
		for n, v := range left {
			values[n] = float64(v)
		}
		caption := "remaining of " + report.Clean(p.Policy)
		if p.Limits > 1 {
			caption += ", for the first tenant"
		}
		r.chart(b, caption, values)
	}
}

// chart draws one value over time.
func (r *Result) chart(b *strings.Builder, caption string, values []float64) {
	if len(values) == 1 {
		values = append(values, values[0]) // a line
	}
	fmt.Fprintf(b, "%s\n%s\n\n", caption, asciigraph.Plot(values,
		asciigraph.Width(chartWidth), asciigraph.Height(chartHeight), asciigraph.LowerBound(0),
		asciigraph.YAxisValueFormatter(level),
		asciigraph.XAxisRange(0, r.For), asciigraph.XAxisTickCount(5),
		asciigraph.XAxisValueFormatter(func(s float64) string { return axis(span(s), span(r.For)) })))
}

// level prints a value of the vertical axis.
func level(v float64) string {
	if v < 100 {
		return report.Number(v)
	}
	return report.Count(int64(math.Round(v)))
}

// axis prints a time since the start, in a unit that fits the whole.
func axis(d, all time.Duration) string {
	switch {
	case all <= 3*time.Minute:
		return report.Number(d.Seconds()) + "s"
	case all <= 3*time.Hour:
		return report.Number(d.Minutes()) + "m"
	case all <= 72*time.Hour:
		return report.Number(d.Hours()) + "h"
	}
	return report.Number(d.Hours()/24) + "d"
}
