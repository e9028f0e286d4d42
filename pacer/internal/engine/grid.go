package engine

// The grid of a window: the buckets that its times are divided into, by their length or by a calendar's table.

// floor returns the start of the bucket that holds t. After the end of a calendar's table the windows are unknown, and floor returns t. A
// table of one bound repeats.
func (l *Limit) floor(t int64) int64 {
	w := l.Spec.Interval
	if len(l.Bounds) == 0 {
		return t - mod(t, w)
	}
	i := l.after(t)
	if i == 0 {
		return t - mod(t-l.Bounds[0], w) // before the calendar's table: only a clock that steps back gets here
	}
	if i < len(l.Bounds) {
		return l.Bounds[i-1]
	}
	if i > 1 {
		return t
	}
	return t - mod(t-l.Bounds[0], w)
}

// next returns the start of the bucket after the one that begins at b.
func (l *Limit) next(b int64) int64 {
	if len(l.Bounds) > 0 {
		if i := l.after(b); i < len(l.Bounds) {
			return l.Bounds[i]
		}
	}
	return b + l.Spec.Interval
}

// after returns the index of the first bound after t. It is usually one of the first.
func (l *Limit) after(t int64) int {
	i := 0
	for i < len(l.Bounds) && l.Bounds[i] <= t {
		i++
	}
	return i
}

// reach returns when a call in the bucket that begins at b stops counting.
func (l *Limit) reach(b int64) int64 { return l.next(b) + l.Spec.Buckets*l.Spec.Interval }

// mod returns the non-negative remainder of a by b, which is positive.
func mod(a, b int64) int64 {
	r := a % b
	if r < 0 {
		r += b
	}
	return r
}
