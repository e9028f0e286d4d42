package top

import (
	"fmt"
	"strings"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies/specs"
)

const (
	chartRows  = 4
	detailRows = chartRows + 3 // an empty line, two of words
	listRows   = 4             // the fewest lines of a useful list: an empty line, a title, two of the list
	sideBySide = 90            // from what width on two lists stand side by side
)

// body returns the table, and what else fits in so many lines.
func (m *model) body(room int) []string {
	lines := m.table(room)
	if room-len(lines) >= detailRows {
		lines = append(lines, m.detail()...)
	}
	if free := room - len(lines); free >= listRows {
		lines = append(lines, m.lists(free)...)
	}
	return lines
}

// table returns the table of policies, or as many around the chosen one as fit.
func (m *model) table(room int) []string {
	c := columnsFor(m.width, m.snapshot)
	row := m.row()
	rows := []string{c.upstream(m.styles, m.snapshot, row == 0)}
	for i := range m.snapshot.Policies {
		rows = append(rows, c.policy(m.styles, &m.snapshot.Policies[i], row == i+1))
	}
	if show := max(1, room-1); len(rows) > show {
		from := max(0, min(row-show/2, len(rows)-show))
		rows = rows[from : from+show]
	}
	return append([]string{c.heads(m.styles)}, rows...)
}

// detail returns the chart of the chosen policy; for the whole upstream, that of the one that binds, or else of the first.
func (m *model) detail() []string {
	p := m.policy()
	if p == nil {
		p = m.snapshot.Binding()
	}
	if p == nil && len(m.snapshot.Policies) > 0 {
		p = &m.snapshot.Policies[0]
	}
	if p == nil {
		return nil
	}
	s := m.styles
	lines := []string{"", s.title.Render(p.Policy.Name()) + s.dim.Render(": "+report.Describe(p.Policy)), s.dim.Render(standing(m.snapshot, p))}
	values, limit := costs(p), 0.0
	if len(p.Policy.Scopes()) == 0 && p.Policy.Spec().Algorithm == specs.GCRA {
		limit = p.Capacity()
	}
	top := limit
	for _, v := range values {
		top = max(top, v)
	}
	const label = 8
	for i, line := range chart(fit(values, max(1, m.width-label-2)), top, chartRows) {
		at := ""
		switch i {
		case 0:
			at = report.Number(top) + "/s"
		case chartRows - 1:
			at = "0"
		}
		lines = append(lines, s.dim.Render(right(at, label)+" │")+s.bar.Render(line))
	}
	return lines
}

// standing returns the state of a policy, beyond its line in the table.
func standing(f *fleet.Snapshot, p *fleet.Policy) string {
	if !p.Shown {
		return "the last minute of all keys together; for one key: --scope " + p.Policy.Scopes()[0] + "=VALUE"
	}
	parts := []string{"used " + report.Percent(report.Used(p)), "next " + report.Next(p.Next)}
	if p.Backlog > 0 {
		parts = append(parts, "charged ahead "+report.Count(p.Backlog))
	}
	if p.Scope != "" {
		parts = append([]string{report.Scope(p.Scope)}, parts...)
	}
	if gone := report.Gone(f.At, p); gone != "" {
		parts = append(parts, gone)
	}
	if lowered := report.Lowered(p); lowered != "" {
		parts = append(parts, lowered)
	}
	if margin := report.Margin(p); margin != "" {
		parts = append(parts, margin)
	}
	if paused := report.PausedBy(f.At, p); paused != "" {
		parts = append(parts, paused)
	}
	return strings.Join(append(parts, report.Said(f, p.Policy.Name(), p.Scope)...), " · ")
}

// lists returns the busiest keys and the processes, in so many lines at most.
func (m *model) lists(room int) []string {
	if m.width >= sideBySide {
		half := (m.width - 2) / 2
		keys, processes := m.busiest(half, room-1), m.processes(m.width-half-2, room-1)
		lines := make([]string, 1+max(len(keys), len(processes))) // the first is empty
		for i := range lines[1:] {
			lines[i+1] = left(at(keys, i), half) + "  " + at(processes, i)
		}
		return lines
	}
	lines := append([]string{""}, m.busiest(m.width, room-1)...)
	if free := room - len(lines); free >= listRows {
		if len(lines) > 1 {
			lines = append(lines, "")
		}
		lines = append(lines, m.processes(m.width, room-len(lines))...)
	}
	return lines
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// callers returns what callers have spent, if the user wants to see it.
func (m *model) callers(width, room int) []string {
	const count = 7
	name := max(8, width-count-1)
	shown := m.snapshot.Callers[:min(len(m.snapshot.Callers), max(0, room-1))]
	lines := append(make([]string, 0, 1+len(shown)), m.styles.dim.Render(left("CALLERS", name)+" "+right("MINUTE", count)))
	for _, c := range shown {
		lines = append(lines, left(report.Clean(c.Name)+m.styles.dim.Render(" "+c.Policy), name)+" "+right(report.Count(c.Cost), count))
	}
	return lines
}

func (m *model) busiest(width, room int) []string {
	if m.ByCaller {
		return m.callers(width, room)
	}
	if len(m.snapshot.TopKeys) == 0 {
		return nil
	}
	s := m.styles
	const count, wait = 7, 7
	name := max(8, width-count-wait-2)
	lines := []string{s.dim.Render(left("BUSIEST KEYS", name) + " " + right("MINUTE", count) + " " + right("WAITING", wait))}
	for i := range m.snapshot.TopKeys[:min(len(m.snapshot.TopKeys), max(0, room-1))] {
		k := &m.snapshot.TopKeys[i]
		label := report.Scope(k.Scope) + s.dim.Render(" "+k.Policy.Name())
		if k.PausedFor > 0 {
			label += s.paused.Render(" paused " + report.Paused(k.PausedFor))
		}
		lines = append(lines, left(label, name)+" "+right(report.Count(k.Cost), count)+" "+
			lit(right(report.Count(k.Waiting), wait), k.Waiting > 0, s.waits, s.dim))
	}
	return lines
}

func (m *model) processes(width, room int) []string {
	if len(m.snapshot.Processes) == 0 {
		return nil
	}
	s := m.styles
	const age, wait = 8, 7
	name := max(8, width-age-wait-2)
	title := fmt.Sprintf("PROCESSES (%d)", m.snapshot.Alive)
	lines := []string{s.dim.Render(left(title, name) + " " + right("FOR", age) + " " + right("WAITING", wait))}
	for _, p := range m.snapshot.Processes[:min(len(m.snapshot.Processes), max(0, room-1))] {
		lines = append(lines, left(report.Clean(p.Name), name)+" "+s.dim.Render(right(report.Duration(p.For), age))+" "+
			lit(right(report.Count(p.Waiting), wait), p.Waiting > 0, s.waits, s.dim))
	}
	return lines
}
