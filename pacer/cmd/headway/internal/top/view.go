package top

import (
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
)

// View implements [tea.Model]: as many lines as the terminal has, none of them longer than it is wide.
func (m *model) View() string {
	lines := m.head()
	if m.mode == helping {
		lines = append(lines, helpLines...)
	} else {
		lines = append(lines, m.body(m.height-len(lines)-1)...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, m.height-1)], m.foot())
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// head returns the lines above the table.
func (m *model) head() []string {
	f, s := m.snapshot, m.styles
	when := f.At.Format(time.TimeOnly)
	if late := f.At.Sub(f.Counted); late > 0 {
		when += ", counted until " + report.Duration(late) + " ago"
	}
	lines := []string{apart(s.title.Render(m.Upstream)+": "+report.Summary(f), s.dim.Render(when), m.width)}
	switch {
	case m.err != nil:
		age := report.Duration(m.now().Sub(m.seen))
		lines = append(lines, s.failed.Render("state of "+age+" ago, still trying: "+report.Clean(m.err.Error())))
	case f.PausedFor > 0:
		lines = append(lines, s.paused.Render("paused: the whole upstream, "+report.Until(f.At, f.PausedFor)+report.By(f.PausedBy)))
	default:
		lines = append(lines, lit("binding: "+report.Binding(f), f.Binding() != nil, s.waits, s.dim))
	}
	if text := report.Disagrees(f); text != "" {
		return append(lines, s.failed.Render(text+": see headway status"))
	}
	return append(lines, s.dim.Render(strings.Join(report.Said(f, "", ""), " · ")))
}

// foot returns the last line: the question, what was done, or the keys.
func (m *model) foot() string {
	s := m.styles
	switch m.mode {
	case pausing:
		line := s.title.Render("Pause "+m.target()+" for how long? ") + m.input + "▏"
		if m.wrong != "" {
			return line + " " + s.failed.Render(m.wrong)
		}
		return line + s.dim.Render("  such as 10m; enter to pause, esc to cancel")
	case resuming:
		return s.title.Render("Lift all pauses of "+m.Upstream+"? ") + s.dim.Render("y for yes, any other key for no")
	case watching, helping:
	}
	if m.message != "" {
		return s.title.Render(m.message)
	}
	return s.dim.Render("q quit   p pause   r resume   ↑↓ choose   ? help")
}

var helpLines = strings.Split(strings.TrimRight(helpText, "\n"), "\n") //nolint:gochecknoglobals // a constant of many lines

const helpText = `PACE     cost per second of the calls of the last ten seconds, all keys together
LIMIT    what the policy admits now, for each key
         USED to QUEUED are of the key that uses most, if there are keys
USED     for a rate the pace, for a window the cost spent, for permits those taken
LEFT     how many calls of cost 1 may start now
AHEAD    cost charged to future slots: of calls that wait, and of bookings
QUEUED   calls that are queued for a permit, a lane or a fair share
WAITING  calls that wait because of the policy, all keys together

p  pause the chosen policy, or the whole upstream
r  resume: lift the pauses of the upstream
↑ ↓ tab  choose
q  quit

any key returns
`
