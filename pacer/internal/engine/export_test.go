package engine

// A Span is the time [From, To).
type Span struct{ From, To int64 }

// Forever is the end of the last free span.
const Forever = forever

// Free returns the virtual time that a rate has not given away: its gaps and its tail.
func (g *GCRA) Free() []Span {
	var free []Span
	for _, f := range g.gaps {
		free = append(free, Span{f.from, f.to})
	}
	return append(free, Span{g.tat, forever})
}

// Counts returns what each bucket of a window holds, by its begin.
func (w *Window) Counts() map[int64]int64 {
	counts := make(map[int64]int64)
	for _, one := range w.buckets {
		counts[one.begin] = one.n
	}
	return counts
}

// Sums returns a window's remembered sums and those of its buckets: of the total, and of the window that ends with bucket k. Peak is what
// it remembers of the fullest window that has bucket k in it, none if it does not, and fullest what that holds.
func (w *Window) Sums(l *Limit, k int64) (total, counted, moved, anew, peak, fullest int64) {
	for _, one := range w.buckets {
		counted += one.n
	}
	fresh := *w
	fresh.sum = sum{}
	peak = none
	if w.peak.at == k {
		peak = w.peak.n
	}
	return w.total, counted, w.ending(l, k).n, fresh.ending(l, k).n, peak, fresh.most(l, k)
}

// Horizon returns the instant from which nothing can be reserved yet.
func (l *Limit) Horizon() int64 { return l.horizon() }
