package dispatch

import (
	"time"
)

// Bounds of a StoreQueue.
const (
	// MinQueued is how many calls of a process are in the store's queue at least, if there are so many.
	MinQueued = 16
	// MaxQueued is how many are at most.
	MaxQueued = 1024
)

// A StoreQueue is how many calls of a process are in the store's own queue: for a limit that is granted shortly before the call goes,
// because nobody can foresee when its turn comes (a permit), or because a call that comes later may go first (a lane, a fair share). The
// others wait in the process, in order. The zero value is one that nothing is known of.
//
// As many are there as are served within the reach, twice over: then there is always one to be served, however far away the store
// is. All times are measured from the same instant, which the user chooses.
type StoreQueue struct {
	since  time.Duration // when calls were last counted from; 0: no call waited then
	served int           // calls since then
	gap    time.Duration // between two calls that are served; 0: not known
}

// Served takes that a call has got what it was queued for, while so many others wait in the process.
func (q *StoreQueue) Served(now, reach time.Duration, waiting int) {
	switch {
	case waiting == 0:
		q.since, q.served = 0, 0
	case q.since == 0:
		q.since, q.served = max(1, now), 0
	default:
		q.served++
		if passed := now - q.since; passed >= max(reach, MinReach) {
			q.gap = passed / time.Duration(q.served)
			q.since, q.served = now, 0
		}
	}
}

// Most returns how many calls are to be in the store's queue.
func (q *StoreQueue) Most(reach time.Duration) int {
	if q.gap <= 0 {
		return MinQueued
	}
	return int(min(MaxQueued, max(MinQueued, 2*reach/q.gap)))
}

// Estimate returns about how long a call waits that has so many before it; 0 if nothing is known of the pace.
func (q *StoreQueue) Estimate(ahead int) time.Duration {
	return time.Duration(min(int64(ahead)+1, int64(MaxEstimate/max(1, q.gap)))) * q.gap
}
