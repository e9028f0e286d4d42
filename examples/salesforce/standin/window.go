package standin

import "time"

// A window counts the calls of the last period by their times, so it is exact.
type window struct {
	limit  int
	period time.Duration
	calls  []time.Time // in order
}

// used counts the calls in the period that ends now.
func (w *window) used(now time.Time) int {
	over := 0
	for over < len(w.calls) && now.Sub(w.calls[over]) >= w.period {
		over++
	}
	w.calls = w.calls[over:]
	return len(w.calls)
}

// full reports whether there is no room for a call.
func (w *window) full(now time.Time) bool { return w.used(now) >= w.limit }

// add counts a call.
func (w *window) add(now time.Time) { w.calls = append(w.calls, now) }
