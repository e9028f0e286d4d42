package top

import (
	"math"
	"strings"
)

const (
	lower  = " ▁▂▃▄▅▆▇█" // a cell that is filled from below, by eighths
	across = " ▏▎▍▌▋▊▉█" // and from the left
)

// eighths returns a cell of a kind that is filled by n eighths.
func eighths(kind string, n int) rune { return []rune(kind)[max(0, min(8, n))] }

// bar draws a part of one, and the rest of the width.
func bar(part float64, width int) (filled, rest string) {
	if math.IsNaN(part) {
		part = 0
	}
	n := int(math.Round(max(0, min(1, part)) * float64(width) * 8))
	filled = strings.Repeat("█", n/8)
	if n%8 > 0 {
		filled += string(eighths(across, n%8))
	}
	return filled, strings.Repeat("·", width-(n+7)/8)
}

// fit fits values into n cells: the mean of several in one, or one across several.
func fit(values []float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		from := i * len(values) / n
		to := max((i+1)*len(values)/n, min(from+1, len(values)))
		for _, v := range values[from:to] {
			out[i] += v / float64(to-from)
		}
	}
	return out
}

// chart draws values as columns of some rows, highest row first. A value above zero shows at least an eighth; a single row is never full,
// so that it does not touch the one above.
func chart(values []float64, top float64, rows int) []string {
	steps := 8 * rows
	if rows == 1 {
		steps--
	}
	lines := make([]string, rows)
	for r := range lines {
		var b strings.Builder
		for _, v := range values {
			n := 0
			if top > 0 {
				n = int(math.Round(min(v/top, 1) * float64(steps)))
			}
			if n == 0 && v > 0 {
				n = 1
			}
			b.WriteRune(eighths(lower, n-8*(rows-1-r)))
		}
		lines[r] = b.String()
	}
	return lines
}
