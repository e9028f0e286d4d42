package bench_test

import (
	"cmp"
	"image/color"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// height is how much room a row needs: its signs may be stacked.
func (r *row) height() vg.Length {
	most := 0
	for _, n := range r.levels() {
		most = max(most, n)
	}
	least := vg.Length(26)
	if r.low {
		least = 13
	}
	return max(least, signsBase+vg.Length(most)*level+least-signsBase) + r.room
}

// levels returns for each sign how many others of its instant it stands on. Rings are around others.
func (r *row) levels() []int {
	on := make([]int, len(r.signs))
	for i := range r.signs {
		for j := range i {
			if r.signs[j].at == r.signs[i].at && r.signs[i].form != asking && r.signs[j].form != asking {
				on[i]++
			}
		}
	}
	return on
}

func (l *timeline) x(at time.Duration) vg.Length {
	left, right := l.names+16, vg.Length(paperWidth-18)
	return even(left + (right-left)*vg.Length(float64(at-l.from)/float64(l.to-l.from)))
}

// even rounds to a hundredth of a point, so that no machine draws it otherwise.
func even(x vg.Length) vg.Length { return vg.Length(math.Round(float64(x)*100) / 100) }

func (l *timeline) drawKeys(c draw.Canvas, y vg.Length) {
	x := vg.Length(18)
	for _, k := range l.keys {
		if k.form == nil {
			c.FillPolygon(k.colour, box(x-3, y-3, x+9, y+4))
			x += 6
		} else {
			k.draw(c, x, y)
		}
		label(c, k.is, 9, faint, x+7, y-0.5, text.XLeft, false)
		x = even(x + 26 + 1.1*style(9, ink, false).Width(k.is)) // other fonts are a little wider
	}
}

func (l *timeline) drawAxis(c draw.Canvas, bottom, top vg.Length) {
	for at := l.from; at <= l.to; at += l.step {
		x := l.x(at)
		c.StrokeLines(draw.LineStyle{Color: gridColour, Width: 0.6}, []vg.Point{{X: x, Y: bottom}, {X: x, Y: top}})
		of := strconv.FormatFloat(at.Seconds(), 'f', -1, 64)
		if l.ms {
			of = strconv.FormatInt(at.Milliseconds(), 10)
		}
		label(c, of, 9, faint, x, bottom-9, text.XCenter, false)
	}
	unit := "seconds"
	if l.ms {
		unit = "milliseconds"
	}
	label(c, unit, 9, faint, paperWidth-18, bottom-20, text.XRight, false)
}

func (l *timeline) drawRow(c draw.Canvas, r *row, bottom vg.Length) {
	top := bottom + r.height()
	base := bottom + signsBase
	left, right := l.names+16, vg.Length(paperWidth-18)
	for _, s := range r.spans {
		if s.form == shade {
			c.FillPolygon(s.colour, box(l.x(s.from), bottom+2, l.x(s.to), top-2))
			label(c, s.label, 8.5, faint, (l.x(s.from)+l.x(s.to))/2, top-9, text.XCenter, false)
		}
	}
	c.StrokeLines(draw.LineStyle{Color: guideColour, Width: 0.5}, []vg.Point{{X: left, Y: base}, {X: right, Y: base}})
	for _, s := range r.spans {
		a, b := l.x(s.from), l.x(s.to)
		switch s.form {
		case thread:
			c.StrokeLines(draw.LineStyle{Color: cmp.Or[color.Color](s.colour, waitBy), Width: 1.6}, []vg.Point{{X: a, Y: base}, {X: b, Y: base}})
		case bar:
			c.FillPolygon(s.colour, box(a, base-4, b, base+4))
			label(c, s.label, 8, color.White, (a+b)/2, base-0.5, text.XCenter, false)
		case brace:
			y := top - 4
			c.StrokeLines(draw.LineStyle{Color: s.colour, Width: 1}, []vg.Point{{X: a, Y: y - 4}, {X: a, Y: y}, {X: b, Y: y}, {X: b, Y: y - 4}})
			label(c, s.label, 8.5, s.colour, (a+b)/2, y-6, text.XCenter, false)
		case shade:
		}
	}
	for i, on := range r.levels() {
		r.signs[i].draw(c, l.x(r.signs[i].at), base+vg.Length(on)*level)
	}
	middle := (bottom + top) / 2
	if r.about == "" {
		label(c, r.name, 10, ink, 14, middle, text.XLeft, r.code)
		return
	}
	label(c, r.name, 10, ink, 14, middle+6, text.XLeft, r.code)
	label(c, r.about, 8.5, faint, 14, middle-6, text.XLeft, false)
}

func (s sign) draw(c draw.Canvas, x, y vg.Length) {
	size := vg.Length(radius)
	if s.form == asking {
		size = ring
	}
	c.DrawGlyph(draw.GlyphStyle{Color: s.colour, Radius: size, Shape: s.form}, vg.Point{X: x, Y: even(y)})
}

func box(left, bottom, right, top vg.Length) []vg.Point {
	left, bottom, right, top = even(left), even(bottom), even(right), even(top)
	return []vg.Point{{X: left, Y: bottom}, {X: left, Y: top}, {X: right, Y: top}, {X: right, Y: bottom}}
}

func style(size vg.Length, colour color.Color, code bool) text.Style {
	variant := font.Variant("Sans")
	if code {
		variant, size = "Mono", size*0.88
	}
	return text.Style{
		Color: colour, Font: font.Font{Typeface: "Liberation", Variant: variant, Size: size}, YAlign: text.YCenter, Handler: plot.DefaultTextHandler,
	}
}

func label(c draw.Canvas, s string, size vg.Length, colour color.Color, x, y vg.Length, align text.XAlignment, code bool) {
	if s == "" {
		return
	}
	st := style(size, colour, code)
	x += st.Width(s) * vg.Length(align) // the browser's widths are not ours: only the left end is sure
	c.FillText(st, vg.Point{X: even(x), Y: even(y)}, s)
}
