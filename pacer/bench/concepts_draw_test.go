package bench_test

import (
	"bytes"
	"image/color"
	"time"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A timeline is a picture of what happened when, with a row for each caller.
type timeline struct {
	title    string
	from, to time.Duration // of the axis
	step     time.Duration // between two marks of the axis
	ms       bool          // the axis counts milliseconds rather than seconds
	names    vg.Length     // the room for the names of the rows
	keys     []key         // what the signs mean
	rows     []row
	lines    []instant // through all rows
}

// A row is one line of a timeline.
type row struct {
	name, about string // about stands below the name, in grey
	code        bool   // the name is code
	spans       []span // drawn first
	signs       []sign
	room        vg.Length // above the signs, for labels of spans
	low         bool      // it is one of many, and needs no room of its own
}

// A span is something that lasts.
type span struct {
	from, to time.Duration
	colour   color.Color
	form     spanForm
	label    string
}

type spanForm uint8

const (
	thread spanForm = iota // a thin line: a wait
	bar                    // a thick one: a call that runs
	shade                  // behind the whole row
	brace                  // over the signs, with its label
)

// A sign is something that happens at one instant. Signs of one instant are stacked.
type sign struct {
	at     time.Duration
	colour color.Color
	form   draw.GlyphDrawer
}

// A instant is an instant that matters to all rows.
type instant struct {
	at    time.Duration
	label string
}

// A key is the meaning of a sign.
type key struct {
	sign
	is string
}

// Forms of signs, which differ for those who do not see colours.
var (
	asking = draw.RingGlyph{}
	going  = draw.CircleGlyph{}
	lost   = draw.CrossGlyph{}
	wanted = draw.PyramidGlyph{}
)

var (
	ink    = color.RGBA{0x22, 0x22, 0x22, 0xFF}
	faint  = color.RGBA{0x66, 0x66, 0x66, 0xFF}
	pale   = color.RGBA{0xF3, 0xE3, 0xC3, 0xFF} // a shade
	waitBy = color.RGBA{0xB0, 0xB0, 0xB0, 0xFF} // a wait
	blue   = palette[0]
	orange = palette[1]
	green  = palette[2]
	red    = palette[3]
	grey   = palette[6]
)

const (
	paperWidth = 504 // points: as wide as a chart
	radius     = 2.9 // of a sign
	ring       = 4.3 // of one that stands around others
	level      = 6.4 // from one sign to the one that stands on it
	signsBase  = 9   // from the bottom of a row to its first signs
)

// svg draws the timeline, on white so that it can be read on any page.
func (l *timeline) svg() ([]byte, error) {
	height := vg.Length(24 + 30)
	if len(l.keys) > 0 {
		height += 17
	}
	for i := range l.rows {
		height += l.rows[i].height()
	}
	canvas := vgsvg.New(paperWidth, height)
	c := draw.New(canvas)
	c.FillPolygon(color.White, box(0, 0, paperWidth, height))
	y := height - 18
	label(c, l.title, 12, ink, 14, y, text.XLeft, false)
	if len(l.keys) > 0 {
		y -= 17
		l.drawKeys(c, y)
	}
	top := y - 8
	y = top
	for i := range l.rows {
		y -= l.rows[i].height()
	}
	l.drawAxis(c, y, top)
	bottom := y
	y = top
	for i := range l.rows {
		y -= l.rows[i].height()
		l.drawRow(c, &l.rows[i], y)
	}
	for _, r := range l.lines {
		x := l.x(r.at)
		c.StrokeLines(draw.LineStyle{Color: red, Width: 1.1, Dashes: []vg.Length{3, 2}}, []vg.Point{{X: x, Y: bottom}, {X: x, Y: top}})
		label(c, r.label, 8.5, red, x+4, top-8, text.XLeft, false)
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	// Most who read it have other fonts of the same widths.
	b := bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
	return bytes.ReplaceAll(b, []byte("font-family:Liberation Mono"), []byte("font-family:Liberation Mono,Courier New,monospace")), nil
}
