package top

import (
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
)

// styles are the colours of the view, from the terminal's own palette, which fits its background, and a grey that is readable on a light
// one and on a dark one. Words carry the same meaning.
type styles struct {
	title, dim, bar, waits, paused, failed, chosen lipgloss.Style
}

func newStyles(r *lipgloss.Renderer) styles {
	colour := func(c string) lipgloss.Style { return r.NewStyle().Foreground(lipgloss.Color(c)) }
	return styles{
		title: r.NewStyle().Bold(true), chosen: colour("6").Bold(true),
		dim: colour("244"), bar: colour("6"), waits: colour("3"), paused: colour("5"), failed: colour("1"),
	}
}

// left cuts and pads s to a width.
func left(s string, width int) string {
	s = ansi.Truncate(s, max(0, width), "…")
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

// right cuts s to a width, and pads it on its left.
func right(s string, width int) string {
	s = ansi.Truncate(s, max(0, width), "…")
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(s))) + s
}

// apart puts two strings at the ends of a line.
func apart(a, b string, width int) string {
	gap := width - ansi.StringWidth(a) - ansi.StringWidth(b)
	if gap < 1 {
		return left(a, width)
	}
	return a + strings.Repeat(" ", gap) + b
}
