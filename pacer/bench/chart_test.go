package bench_test

import (
	"bytes"
	"cmp"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A chart is a figure: lines, or groups of bars.
type chart struct {
	file          string // its name, without a folder, with .svg
	title, x, y   string
	logX, logY    bool
	bars          bool     // the ys of the series stand over the labels, and their xs mean nothing
	labels        []string // of the groups of bars, one for each y of a series
	series        []series
	width, height float64 // in inches; default to 7 and 4
}

// series is one line of a chart, or the bars of one colour.
type series struct {
	name   string
	xs, ys []float64
	guide  bool // a line that only leads the eye
}

// palette begins with the colours of Okabe and Ito, which the colour-blind can distinguish.
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xB2, 0xFF}, color.RGBA{0xE6, 0x9F, 0x00, 0xFF}, color.RGBA{0x00, 0x9E, 0x73, 0xFF},
	color.RGBA{0xD5, 0x5E, 0x00, 0xFF}, color.RGBA{0xCC, 0x79, 0xA7, 0xFF}, color.RGBA{0x56, 0xB4, 0xE9, 0xFF}, color.RGBA{0x55, 0x55, 0x55, 0xFF},
	color.RGBA{0x7A, 0x3B, 0x00, 0xFF}, color.RGBA{0xB5, 0xA6, 0x00, 0xFF},
}

var (
	gridColour  = color.RGBA{0xDD, 0xDD, 0xDD, 0xFF}
	guideColour = color.RGBA{0x99, 0x99, 0x99, 0xFF}
)

// write draws the chart, on white so that it can be read on any page.
func (c chart) write(dir string) error {
	p, err := c.plot()
	if err != nil {
		return err
	}
	canvas := vgsvg.New(vg.Length(cmp.Or(c.width, 7))*vg.Inch, vg.Length(cmp.Or(c.height, 4))*vg.Inch)
	paper := draw.New(canvas)
	paper.FillPolygon(color.White, []vg.Point{paper.Min, {X: paper.Min.X, Y: paper.Max.Y}, paper.Max, {X: paper.Max.X, Y: paper.Min.Y}})
	p.Draw(draw.Crop(paper, vg.Points(8), vg.Points(-20), vg.Points(6), vg.Points(-6)))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	// Most who read it have another font of the same widths.
	text := bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
	return os.WriteFile(filepath.Join(dir, c.file), text, 0o644)
}

func (c chart) plot() (*plot.Plot, error) {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
	p := plot.New()
	p.BackgroundColor = nil
	p.Legend.TextStyle.Font.Size = vg.Points(10)
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.Title.Padding = vg.Points(8)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(3)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = gridColour, gridColour
	if c.bars {
		grid.Vertical.Color = nil
	}
	p.Add(grid)
	if c.logX {
		logarithmic(&p.X)
	}
	if c.logY {
		logarithmic(&p.Y)
	}
	var err error
	if c.bars {
		err = c.addBars(p)
	} else {
		err = c.addLines(p)
	}
	if err != nil {
		return nil, err
	}
	if c.logX {
		decades(&p.X)
	}
	if c.logY {
		decades(&p.Y)
	} else {
		p.Y.Min = min(0, p.Y.Min)
		p.Y.Max *= 1.1
	}
	return p, nil
}

func logarithmic(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	a.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		var ticks []plot.Tick
		for e := math.Floor(math.Log10(low)); math.Pow(10, e) <= high*1.001; e++ {
			one := math.Pow(10, e)
			ticks = append(ticks, plot.Tick{Value: one, Label: number(one)})
			for n := 2.0; n < 10 && n*one <= high*1.001; n++ {
				ticks = append(ticks, plot.Tick{Value: n * one})
			}
		}
		return ticks
	})
}

// decades widens a logarithmic axis to whole decades.
func decades(a *plot.Axis) {
	a.Min = math.Pow(10, math.Floor(math.Log10(a.Min)+1e-9))
	a.Max = math.Pow(10, math.Ceil(math.Log10(a.Max)-1e-9))
	if a.Max <= a.Min {
		a.Max = a.Min * 10
	}
}

func (c chart) addLines(p *plot.Plot) error {
	colours := 0
	for _, s := range c.series {
		var points plotter.XYs
		for i := range s.xs {
			if (!c.logX || s.xs[i] > 0) && (!c.logY || s.ys[i] > 0) {
				points = append(points, plotter.XY{X: s.xs[i], Y: s.ys[i]})
			}
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		if s.guide {
			line.Color, line.Dashes = guideColour, []vg.Length{vg.Points(4), vg.Points(3)}
			p.Add(line)
			p.Legend.Add(s.name, line)
			continue
		}
		colour := palette[colours%len(palette)]
		colours++
		line.Color, line.Width = colour, vg.Points(1.6)
		marks.Color, marks.Shape, marks.Radius = colour, draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(line, marks)
		p.Legend.Add(s.name, line, marks)
	}
	return nil
}

func (c chart) addBars(p *plot.Plot) error {
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, s := range c.series {
		for _, y := range s.ys {
			lowest, highest = min(lowest, y), max(highest, y)
		}
	}
	const group = 0.8 // of the room between two labels
	width := group / float64(len(c.series))
	for i, s := range c.series {
		b := &bars{colour: palette[i%len(palette)], width: width, log: c.logY, values: s.ys, lowest: lowest, highest: highest}
		for j := range s.ys {
			b.centres = append(b.centres, float64(j)-group/2+(float64(i)+0.5)*width)
		}
		p.Add(b)
		p.Legend.Add(s.name, b)
		labels, err := b.labels()
		if err != nil {
			return err
		}
		p.Add(labels)
	}
	var ticks plot.ConstantTicks
	for j, l := range c.labels {
		ticks = append(ticks, plot.Tick{Value: float64(j), Label: l})
	}
	p.X.Tick.Marker = ticks
	p.X.Tick.Length = 0
	p.X.Min, p.X.Max = -0.5, float64(len(c.labels))-0.5
	p.Legend.Left = false
	return nil
}

// bars are rectangles that stand on the axis, which a plotter.BarChart does not do on a logarithmic one.
type bars struct {
	colour          color.Color
	centres, values []float64
	width           float64
	log             bool
	lowest, highest float64 // of all bars of the chart
}

// Plot implements [plot.Plotter].
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, v := range b.values {
		left, right := x(b.centres[i]-b.width/2*0.92), x(b.centres[i]+b.width/2*0.92)
		bottom, top := y(p.Y.Min), y(max(v, p.Y.Min))
		c.FillPolygon(b.colour, []vg.Point{{X: left, Y: bottom}, {X: left, Y: top}, {X: right, Y: top}, {X: right, Y: bottom}})
	}
}

// DataRange implements [plot.DataRanger]. It leaves room for the figures above the bars.
func (b *bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	if b.log {
		return 0, float64(len(b.values)), b.lowest, b.highest * 1.3
	}
	return 0, float64(len(b.values)), 0, b.highest * 1.1
}

// Thumbnail implements [plot.Thumbnailer].
func (b *bars) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(b.colour, []vg.Point{
		{X: c.Min.X, Y: c.Min.Y}, {X: c.Min.X, Y: c.Max.Y}, {X: c.Max.X, Y: c.Max.Y}, {X: c.Max.X, Y: c.Min.Y},
	})
}

// labels are the figures above the bars.
func (b *bars) labels() (*plotter.Labels, error) {
	var at plotter.XYLabels
	for i, v := range b.values {
		at.XYs = append(at.XYs, plotter.XY{X: b.centres[i], Y: v})
		at.Labels = append(at.Labels, number(v))
	}
	labels, err := plotter.NewLabels(at)
	if err != nil {
		return nil, err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].XAlign, labels.TextStyle[i].Font.Size = text.XCenter, vg.Points(8)
		labels.TextStyle[i].YAlign = text.YBottom
	}
	labels.Offset = vg.Point{Y: vg.Points(2)}
	return labels, nil
}
