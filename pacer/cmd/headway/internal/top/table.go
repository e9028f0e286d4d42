package top

import (
	"github.com/charmbracelet/lipgloss"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/fleet"
)

// Widths of the columns of the table of policies. Narrow views omit columns that need a wider one.
const (
	wideLimit, wideBar, wideLeft, wideQueued, wideSpark, wideAhead = 50, 60, 67, 74, 80, 100

	paceWidth, limitWidth, leftWidth, aheadWidth, queuedWidth, waitingWidth, pausedWidth = 8, 10, 6, 6, 6, 7, 8

	minName, maxName, minBar, maxBar = 11, 24, 7, 14
)

// columns are the widths of the variable columns; 0 for omitted ones.
type columns struct {
	width, name, bar, spark int
}

func columnsFor(width int, f *fleet.Snapshot) columns {
	c := columns{width: width, name: len(f.Upstream)}
	for i := range f.Policies {
		c.name = max(c.name, len(f.Policies[i].Policy.Name()))
	}
	longest := min(max(minName, c.name), maxName)
	c.name = minName
	free := width - 2 - c.name - (1 + paceWidth) - (1 + waitingWidth) - (1 + pausedWidth)
	for _, column := range []struct{ from, width int }{{wideLimit, limitWidth}, {wideLeft, leftWidth}, {wideAhead, aheadWidth}, {wideQueued, queuedWidth}} {
		if width >= column.from {
			free -= 1 + column.width
		}
	}
	if width >= wideBar {
		c.bar = minBar
		free -= 1 + c.bar
	}
	grow := max(0, min(longest-c.name, free))
	c.name, free = c.name+grow, free-grow
	if width >= wideSpark && free >= 8 {
		more := min(maxBar-c.bar, (free-8)/3)
		c.bar += more
		c.spark = min(free-more-1, fleet.HistorySeconds)
	}
	return c
}

// heads returns the line of the columns' names.
func (c columns) heads(s styles) string {
	spark := "LAST MINUTE"
	if c.spark < len(spark) {
		spark = "MINUTE"
	}
	return s.dim.Render("  " + c.line("POLICY", right("PACE", paceWidth), right("LIMIT", limitWidth), left("USED", c.bar), right("LEFT", leftWidth),
		right("AHEAD", aheadWidth), right("QUEUED", queuedWidth), right("WAITING", waitingWidth), right("PAUSED", pausedWidth), left(spark, c.spark)))
}

// line joins cells of the right widths, without omitted columns.
func (c columns) line(name, pace, limit, bar, remaining, ahead, queued, waiting, paused, spark string) string {
	s := left(name, c.name) + " " + pace
	if c.width >= wideLimit {
		s += " " + limit
	}
	if c.bar > 0 {
		s += " " + bar
	}
	if c.width >= wideLeft {
		s += " " + remaining
	}
	if c.width >= wideAhead {
		s += " " + ahead
	}
	if c.width >= wideQueued {
		s += " " + queued
	}
	s += " " + waiting + " " + paused
	if c.spark > 0 {
		s += " " + spark
	}
	return s
}

// policy returns the line of a policy.
func (c columns) policy(s styles, p *fleet.Policy, chosen bool) string {
	mark, name := "  ", s.title
	if chosen {
		mark, name = s.chosen.Render("▸ "), s.chosen
	}
	remaining, ahead, queued, limit := report.Count(p.Remaining), report.Count(p.Backlog), report.Count(p.Queued), report.Limit(p)
	used, known := report.Used(p)
	filled, rest := bar(used, c.bar)
	if !known {
		filled, rest = "", left("per key", c.bar)
	}
	if !p.Shown {
		remaining, ahead, queued = report.None, report.None, report.None
	}
	colour := s.bar
	switch {
	case p.PausedFor > 0:
		colour = s.paused
	case p.Waiting > 0:
		colour = s.waits
	}
	return mark + c.line(
		name.Render(left(p.Policy.Name(), c.name)), right(report.Pace(p), paceWidth), right(limit, limitWidth),
		colour.Render(filled)+s.dim.Render(rest), right(remaining, leftWidth), right(ahead, aheadWidth),
		lit(right(queued, queuedWidth), p.Queued > 0, s.waits, s.dim), lit(right(report.Count(p.Waiting), waitingWidth), p.Waiting > 0, s.waits, s.dim),
		lit(right(report.Paused(p.PausedFor), pausedWidth), p.PausedFor > 0, s.paused, s.dim), c.history(s, p))
}

// upstream returns the line of the whole upstream.
func (c columns) upstream(s styles, f *fleet.Snapshot, chosen bool) string {
	mark, name := "  ", s.title
	if chosen {
		mark, name = s.chosen.Render("▸ "), s.chosen
	}
	waiting := f.Waiters()
	return mark + c.line(name.Render(left("upstream", c.name)), right("", paceWidth), right("", limitWidth), left("", c.bar),
		right("", leftWidth), right("", aheadWidth), right("", queuedWidth), lit(right(report.Count(waiting), waitingWidth), waiting > 0, s.waits, s.dim),
		lit(right(report.Paused(f.PausedFor), pausedWidth), f.PausedFor > 0, s.paused, s.dim), "")
}

// history returns the last minute as a line of columns.
func (c columns) history(s styles, p *fleet.Policy) string {
	if c.spark < 1 {
		return ""
	}
	costs, top := costs(p), 0.0
	values := fit(costs, c.spark)
	for _, v := range values {
		top = max(top, v)
	}
	return s.bar.Render(left(chart(values, top, 1)[0], c.spark))
}

// costs returns the history's costs per second.
func costs(p *fleet.Policy) []float64 {
	out := make([]float64, len(p.History))
	for i, second := range p.History {
		out[i] = float64(second.Cost)
	}
	return out
}

// lit renders s in one style or the other.
func lit(s string, on bool, yes, no lipgloss.Style) string {
	if on {
		return yes.Render(s)
	}
	return no.Render(s)
}
