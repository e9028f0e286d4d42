package engine

// How a window applies reports of an upstream, an operator or another process.

// forget drops everything if it is past.
func (w *Window) forget(now int64) {
	if w.Expires() <= now {
		*w = Window{reset: w.reset}
	}
}

// Stray implements [Account].
func (w *Window) Stray(_ *Limit, now, at int64, s Stray) (alone, slower bool) {
	w.forget(now)
	w.margin.forget(now)
	return w.margin.stray(now, at, s), false
}

// Learn implements [Account].
func (w *Window) Learn(l *Limit, now, value, until int64) bool {
	before := w.limit(l, now)
	w.learned, w.until = max(1, value), until
	if value <= 0 || value >= l.Spec.Limit || until <= now {
		w.learned, w.until = 0, 0
	}
	w.forget(now)
	return w.limit(l, now) != before
}

// Claim implements [Account]. A bucket that holds less than a process remembers need not lack a charge: others may have given theirs back.
func (w *Window) Claim(l *Limit, now int64, c Charge) bool {
	l = w.widened(l, now)
	begin, n := c.claimed()
	begin = l.floor(begin)
	if missing := n - w.count(begin); missing > 0 && l.reach(begin) > now {
		w.tidy(l, now)
		w.add(l, begin, missing)
	}
	return false
}
