package waiters

import "time"

// Bounds of a line.
const (
	// MinLine is how many calls of a process stand in the store's line at least, if there are so many.
	MinLine = 16
	// MaxLine is how many do at most.
	MaxLine = 1024
)

// A Line is how many calls of a process stand in the store's own line: for a limit that is not given far ahead, because nobody can
// foresee when its turn comes (a place in flight), or because who comes later may come first (a lane, a fair share). The others wait
// in the process, in order. The zero value is one that nothing is known of.
//
// So many stand there as are served within the reach, twice over: then there is always one to be served, however far away the store
// is. All times are measured from the same instant, which the user chooses.
type Line struct {
	since  time.Duration // when calls were last counted from; 0: nobody waited then
	served int           // calls since then
	gap    time.Duration // between two calls that are served; 0: not known
}

// Served takes that a call has got what it stood in line for, while so many others wait in the process.
func (l *Line) Served(now, reach time.Duration, waiting int) {
	switch {
	case waiting == 0:
		l.since, l.served = 0, 0
	case l.since == 0:
		l.since, l.served = max(1, now), 0
	default:
		l.served++
		if passed := now - l.since; passed >= max(reach, MinReach) {
			l.gap = passed / time.Duration(l.served)
			l.since, l.served = now, 0
		}
	}
}

// Most returns how many calls are to stand in the store's line.
func (l *Line) Most(reach time.Duration) int {
	if l.gap <= 0 {
		return MinLine
	}
	return int(min(MaxLine, max(MinLine, 2*reach/l.gap)))
}

// Estimate returns about how long a call waits that has so many before it; 0 if nothing is known of the pace.
func (l *Line) Estimate(ahead int) time.Duration {
	return time.Duration(min(int64(ahead)+1, int64(MaxEstimate/max(1, l.gap)))) * l.gap
}
