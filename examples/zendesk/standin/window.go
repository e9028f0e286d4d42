package standin

import "time"

// A window admits at most limit calls in any half-open window of the period's length. It keeps the time of each call, so it is exact.
type window struct {
	name   string
	limit  int
	period time.Duration
	calls  []time.Time // of the last period, in order
}

// expire forgets the calls that are a whole period old.
func (w *window) expire(now time.Time) {
	i := 0
	for i < len(w.calls) && now.Sub(w.calls[i]) >= w.period {
		i++
	}
	w.calls = w.calls[i:]
}

// wait returns how long until there is room for a call; 0 means now.
func (w *window) wait(now time.Time) time.Duration {
	w.expire(now)
	if len(w.calls) < w.limit {
		return 0
	}
	return w.calls[len(w.calls)-w.limit].Add(w.period).Sub(now)
}

// add counts a call.
func (w *window) add(now time.Time) { w.calls = append(w.calls, now) }

// remaining returns how many calls there is room for.
func (w *window) remaining() int { return w.limit - len(w.calls) }

// resets returns how long until the first call expires, or the period if there is none.
func (w *window) resets(now time.Time) time.Duration {
	if len(w.calls) == 0 {
		return w.period
	}
	return w.calls[0].Add(w.period).Sub(now)
}

// seconds rounds up to whole seconds, which always suffice.
func seconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
