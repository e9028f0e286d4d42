// Package screen is a terminal for tests, whose content can be read as text, and drawn as SVG.
package screen

import (
	"io"
	"strings"

	"github.com/hinshun/vt10x"
)

// A Screen is a terminal. It is safe for concurrent use.
type Screen struct{ vt vt10x.Terminal }

// New returns a screen. A terminal's answers to a program's questions go to answers.
func New(columns, rows int, answers io.Writer) *Screen {
	return &Screen{vt10x.New(vt10x.WithSize(columns, rows), vt10x.WithWriter(answers))}
}

// Write implements [io.Writer], for the program.
func (s *Screen) Write(p []byte) (int, error) { return s.vt.Write(p) }

// Text returns the screen's text, without spaces at the ends of lines.
func (s *Screen) Text() string {
	s.vt.Lock()
	defer s.vt.Unlock()
	columns, rows := s.vt.Size()
	lines := make([]string, rows)
	for y := range lines {
		var b strings.Builder
		for x := range columns {
			b.WriteRune(shown(s.vt.Cell(x, y)))
		}
		lines[y] = strings.TrimRight(b.String(), " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

func shown(g vt10x.Glyph) rune {
	if g.Char == 0 {
		return ' '
	}
	return g.Char
}
