package bench_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
)

// asLogarithm is the largest k of a cost that grows as N^k over two decades and is taken for a logarithm: one that starts
// at nothing shows 0.15 from 100 to 10,000, a square root 0.5.
const asLogarithm = 0.25

// growth is what a decision costs against one dimension.
type growth struct {
	title, text string
	file        string
	x           string // the dimension
	points      []int
	lines       []line
	late        time.Duration // the latest timer of the median round
	linear      bool          // it may grow as the dimension does; otherwise as its logarithm
}

// line is one cost, at each of the points.
type line struct {
	name, unit string
	values     []float64
	times      []float64 // of what it is at the first point
}

// lineOf picks a cost of the contenders of a name: one for each point.
func lineOf(name, unit string, r *results, contenders string, q quantity, scale float64) line {
	l := line{name: name, unit: unit}
	first := -1
	for i, c := range r.contenders {
		if c.name != contenders {
			continue
		}
		if first < 0 {
			first = i
		}
		l.values = append(l.values, r.median(i, q)*scale)
		l.times = append(l.times, r.ratio(i, first, q))
	}
	return l
}

// first returns the index of the first point that is not 0.
func (g *growth) first() int { return slices.IndexFunc(g.points, func(n int) bool { return n > 0 }) }

// exponent returns k of a cost that grows as N^k: over the last two decades, or over everything that may grow linearly.
func (g *growth) exponent(l *line) float64 {
	first, last := g.first(), len(g.points)-1
	if !g.linear {
		first = slices.IndexFunc(g.points, func(n int) bool { return n*100 >= g.points[last] })
	}
	return math.Log(l.times[last]/l.times[first]) / math.Log(float64(g.points[last])/float64(g.points[first]))
}

func (g *growth) section() section {
	s := section{title: g.title, text: g.text + "\n\n", head: []string{"cost by " + g.x}}
	for _, n := range g.points {
		s.head = append(s.head, number(float64(n)))
	}
	c := chart{file: g.file, title: g.title, x: g.x, y: "times the cost at the first point", logX: true, logY: true}
	c.height = 3.4 + 0.2*float64(len(g.lines)) // room for the legend
	for _, l := range g.lines {
		plotted, row := series{name: l.name}, []string{l.name + ", " + l.unit}
		for i, n := range g.points {
			plotted.xs, plotted.ys = append(plotted.xs, float64(n)), append(plotted.ys, l.times[i])
			row = append(row, number(l.values[i]))
		}
		s.rows = append(s.rows, row)
		c.series = append(c.series, plotted)
		want, kind := asLogarithm, "no faster than a logarithm: k of N^k"
		if g.linear {
			want, kind = 1, "no faster than linearly: k of N^k"
		}
		k := math.Round(100*g.exponent(&l)) / 100
		s.targets = append(s.targets, most(fmt.Sprintf("Cost by %s, %s, %s", g.x, l.name, kind), want, k).timed(g.late, calm))
		s.text += fmt.Sprintf("- %s: %s times the cost for %s times as many %s; in the end it grows as N^%s\n", l.name,
			number(l.times[len(l.times)-1]/l.times[g.first()]), number(float64(g.points[len(g.points)-1])/float64(g.points[g.first()])), g.x, number(k))
	}
	linear, logarithm := series{name: "linear", guide: true}, series{name: "1 + log₂ N", guide: true}
	for _, n := range g.points {
		if n > 0 {
			x := float64(n)
			linear.xs, linear.ys = append(linear.xs, x), append(linear.ys, x)
			logarithm.xs, logarithm.ys = append(logarithm.xs, x), append(logarithm.ys, 1+math.Log2(x))
		}
	}
	// A guide that leaves the chart would flatten the lines in it.
	highest := 10.0
	for _, l := range g.lines {
		highest = max(highest, slices.Max(l.times))
	}
	c.series = append(c.series, linear.below(highest), logarithm.below(highest))
	s.charts = []chart{c}
	return s
}

func (s series) below(highest float64) series {
	n := 0
	for n < len(s.ys) && (n == 0 || s.ys[n-1] < highest) {
		n++
	}
	s.xs, s.ys = s.xs[:n], s.ys[:n]
	return s
}

// points returns the points of a dimension, or the first few of them.
func points(full bool, all ...int) []int {
	if !full {
		return all[:min(3, len(all))]
	}
	return all
}

// both measures contenders, which build makes for each point, in memory and over Redis.
func both(
	t *testing.T, b *backend, full bool, points []int, build func(n int, upstream string, store store.Store) []contender,
) (memory, redis *results) {
	t.Helper()
	var inMemory, overRedis []contender
	for _, n := range points {
		inMemory = append(inMemory, build(n, "growth", nil)...)
		overRedis = append(overRedis, build(n, fmt.Sprint("growth-", n), newRedisStore(t, b))...)
	}
	memory = course{rounds: 9, goroutines: 1, turn: 40 * time.Millisecond}.smoke(full).run(t, inMemory)
	redis = course{rounds: 9, goroutines: 1, turn: 90 * time.Millisecond, backend: b}.smoke(full).run(t, overRedis)
	require.Zero(t, b.sent.failed.Load(), "requests failed")
	return memory, redis
}

// latest returns by how much the latest timer was late in the median rounds of some results.
func latest(all ...*results) (late time.Duration) {
	for _, r := range all {
		late = max(late, r.latest())
	}
	return late
}

// costs are the three costs of contenders of a name.
func costs(prefix, contenders string, memory, redis *results) []line {
	return []line{
		lineOf(prefix+"in memory", "ns", memory, contenders, nanos, 1),
		lineOf(prefix+"over Redis, time", "µs", redis, contenders, nanos, 1e-3),
		lineOf(prefix+"Redis CPU", "µs", redis, contenders, cpu, 1),
	}
}

// thereAndBack reserves a slot and gives it back.
func thereAndBack(p *pacer.Pacer, opts ...pacer.Option) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		r, err := p.Reserve(ctx, opts...)
		if err != nil {
			return err
		}
		return r.NotUsed(ctx)
	}
}
