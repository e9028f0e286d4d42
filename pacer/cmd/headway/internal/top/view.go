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
		lines = append(lines, s.failed.Render("as it stood "+age+" ago, still trying: "+report.Clean(m.err.Error())))
	case f.PausedFor > 0:
		lines = append(lines, s.paused.Render("paused: all of it, "+report.Until(f.At, f.PausedFor)))
	default:
		lines = append(lines, lit("binding: "+report.Binding(f), f.Binding() != nil, s.waits, s.dim))
	}
	if text := report.Disagrees(f); text != "" {
		return append(lines, s.failed.Render(text+": see headway status"))
	}
	return append(lines, "")
}

// foot returns the last line: what is asked, what was done, or the keys.
func (m *model) foot() string {
	s := m.styles
	switch m.mode {
	case pausing:
		line := s.title.Render("Pause "+m.target()+" for how long? ") + m.input + "▏"
		if m.wrong != "" {
			return line + " " + s.failed.Render(m.wrong)
		}
		return line + s.dim.Render("  such as 10m; enter pauses, esc leaves")
	case resuming:
		return s.title.Render("Resume "+m.Upstream+", all of its pauses? ") + s.dim.Render("y, or any other key for no")
	case watching, helping:
	}
	if m.said != "" {
		return s.title.Render(m.said)
	}
	return s.dim.Render("q quit   p pause   r resume   ↑↓ choose   ? help")
}

var helpLines = strings.Split(strings.TrimRight(helpText, "\n"), "\n") //nolint:gochecknoglobals // a constant of many lines

const helpText = `PACE     cost per second of what went in the last ten seconds, all keys together
LIMIT    what the policy admits as it stands now, for each key
USED     of a rate the pace against it, of a window what is spent, of permits those taken
LEFT     what may go at once, now
QUEUED   queued calls for a permit, a lane or a fair share
WAITING  calls that sleep because of the policy, all keys together

p  pause the chosen policy, or all of the upstream
r  resume: lift the pauses of the upstream
↑ ↓ tab  choose
q  quit

any key goes back
`
