package screen

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/hinshun/vt10x"
)

// Sizes of the picture, in pixels.
const (
	cellWidth, cellHeight, fontSize = 8.4, 18.0, 14.0
	margin, baseline                = 16.0, 13.5
	bold                            = 1 << 2 // of a glyph's mode
)

// SVG draws the screen, in a dark terminal's colours.
func (s *Screen) SVG(title string) string {
	s.vt.Lock()
	defer s.vt.Unlock()
	columns, rows := s.vt.Size()
	width, height := 2*margin+cellWidth*float64(columns), 2*margin+cellHeight*float64(rows)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %[1]g %[2]g" role="img" aria-labelledby="title">`+"\n", width, height)
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n", escape(title))
	fmt.Fprintf(&b, `<rect width="%g" height="%g" rx="8" fill="%s"/>`+"\n", width, height, colour(vt10x.DefaultBG))
	fmt.Fprintf(&b, `<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="%g">`+"\n", fontSize)
	for y := range rows {
		for x := 0; x < columns; {
			first := s.vt.Cell(x, y)
			n := 1
			for x+n < columns && alike(first, s.vt.Cell(x+n, y)) {
				n++
			}
			run := make([]rune, n)
			for i := range run {
				run[i] = shown(s.vt.Cell(x+i, y))
			}
			drawRun(&b, first, run, x, y)
			x += n
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// alike reports whether two cells can be drawn together.
func alike(a, b vt10x.Glyph) bool {
	_, blockA := block(shown(a))
	_, blockB := block(shown(b))
	if blockA || blockB {
		return shown(a) == shown(b) && a.FG == b.FG
	}
	return a.FG == b.FG && a.Mode&bold == b.Mode&bold && (shown(a) == ' ') == (shown(b) == ' ')
}

// drawRun draws cells of a line that look alike.
func drawRun(b *strings.Builder, g vt10x.Glyph, run []rune, column, row int) {
	x, y, width := margin+cellWidth*float64(column), margin+cellHeight*float64(row), cellWidth*float64(len(run))
	if run[0] == ' ' {
		return
	}
	if part, ok := block(run[0]); ok {
		if part.across < 1 {
			for i := range run {
				rect(b, x+cellWidth*float64(i), y, cellWidth*part.across, cellHeight, g)
			}
			return
		}
		rect(b, x, y+cellHeight*(1-part.up), width, cellHeight*part.up, g)
		return
	}
	weight := ""
	if g.Mode&bold != 0 {
		weight = ` font-weight="bold"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" textLength="%.1f" fill="%s"%s>%s</text>`+"\n", x, y+baseline, width, colour(g.FG), weight, escape(string(run)))
}

func rect(b *strings.Builder, x, y, width, height float64, g vt10x.Glyph) {
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" shape-rendering="crispEdges"/>`+"\n", x, y, width, height, colour(g.FG))
}

// filled is the part of a cell that a block element fills, from the left and from below.
type filled struct{ across, up float64 }

// block returns the filled part of a cell, if a character is a block element.
func block(r rune) (filled, bool) {
	switch {
	case r >= '▁' && r <= '█':
		return filled{1, float64(r-'▁'+1) / 8}, true
	case r >= '▉' && r <= '▏':
		return filled{float64('▏'-r+1) / 8, 1}, true
	}
	return filled{}, false
}

// colour returns a colour of a dark terminal, of those that the view and the text use.
func colour(c vt10x.Color) string {
	const grey = 244 // of the 256 colours that terminals have beside the 16 of their palettes
	known := map[vt10x.Color]string{
		vt10x.Red: "#ff7b72", vt10x.LightRed: "#ff7b72", vt10x.Green: "#7ee787", vt10x.LightGreen: "#7ee787",
		vt10x.Yellow: "#e3b341", vt10x.LightYellow: "#e3b341", vt10x.Magenta: "#d2a8ff", vt10x.LightMagenta: "#d2a8ff",
		vt10x.Cyan: "#39c5cf", vt10x.LightCyan: "#7ce8f0", vt10x.DefaultBG: "#0d1117", grey: "#8b949e",
	}
	return cmp.Or(known[c], "#e6edf3")
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // to a strings.Builder, which does not fail
	return b.String()
}
