package dispatch

import (
	"sync/atomic"
	"time"
)

// Bounds of requests.
const (
	// MaxBatch bounds the calls of one request.
	MaxBatch = 256
	// MaxAhead bounds the calls of one request that have to wait. A store without time for all of them leaves the last ones undecided.
	MaxAhead = 128
	// firstBatch is how many calls the first request of a window carries at most, before it is known whether they have to wait.
	firstBatch = 64
)

// Bounds of the reach.
const (
	// MinReach is the shortest reach: it is long enough for a request within one site, and for a timer that is late.
	MinReach = 40 * time.Millisecond
	// MinLead is the shortest lead: see [Way.Lead].
	MinLead = 10 * time.Millisecond
	// MaxReach is the longest reach.
	MaxReach = 2 * time.Second
	// ways is how many times the way to the store and back the reach is.
	ways = 3
)

// A Window is how far ahead a process has reserved for the calls of one stack. The zero value is one that nothing is known of.
// All times are measured from the same instant, which the user chooses.
type Window struct {
	way   Way           // to the store and back
	gap   time.Duration // between the slots of two calls that follow each other; 0: not known, or calls need not wait
	front time.Duration // the furthest slot that was ever granted
	batch int           // how many calls the next request carries; 0: firstBatch
	sleep time.Duration // until then, no request is made, because no slot can be had
}

// Reach returns H: how far ahead of now slots are reserved.
func (w *Window) Reach() time.Duration { return w.way.Reach() }

// A Way measures the round trip to the store: the longest lately, which shrinks by an eighth with each answer. The zero value has measured
// none. It is safe for concurrent use.
type Way struct{ longest atomic.Int64 }

// Took records a round trip of d. Concurrent calls may overwrite each other; one of the values is enough.
func (w *Way) Took(d time.Duration) {
	before := w.longest.Load()
	w.longest.Store(max(int64(d), before-before/8))
}

// Longest returns the longest round trip lately; 0 if none was measured.
func (w *Way) Longest() time.Duration { return time.Duration(w.longest.Load()) }

// Reach returns how far ahead of now to reserve slots, for the next ones to be there in time.
func (w *Way) Reach() time.Duration {
	return min(MaxReach, max(MinReach, ways*time.Duration(w.longest.Load())))
}

// Lead returns how long before its slot a call requests its permits: long enough for the answer to be there in time, and no longer, because
// the permits idle until the slot.
func (w *Way) Lead() time.Duration {
	return min(MaxReach, max(MinLead, ways*time.Duration(w.longest.Load())))
}

// Gap returns the time between the slots of two calls that follow each other, by the last answers: 0 if that is not known, or if calls do
// not have to wait.
func (w *Window) Gap() time.Duration { return w.gap }

// Ask returns how many of the waiting calls to request now, when the furthest slot that is held is at furthest (or in the past). If it
// returns 0, do not call it before again.
func (w *Window) Ask(now, furthest time.Duration, waiting int) (n int, again time.Duration) {
	if now < w.sleep {
		return 0, w.sleep
	}
	reach := w.Reach()
	low := reach
	if w.gap > 0 && w.gap < reach/4 { // a request is for several, the more, the nearer the store is
		low = min(reach/2, max(reach/4, 2*w.way.Longest()))
	}
	if furthest-now > low {
		return 0, furthest - low
	}
	most := w.batch
	if most == 0 {
		most = firstBatch
	}
	if w.gap > 0 {
		fit := 1 + (now+reach-max(furthest, now))/w.gap
		most = int(min(fit, MaxAhead))
	}
	return min(waiting, most), 0
}

// An Answer is the store's answer to a request for calls of a window.
type Answer struct {
	Requested, Answered time.Duration // when
	Calls               int           // how many were requested
	Granted             int           // how many got slots
	Waits               bool          // some of them have to wait, or some got none
	First, Last         time.Duration // the nearest and the furthest of their slots
	Next                time.Duration // the first slot that was not granted, because it is too far ahead; 0 if there is none
	Paused              bool          // calls wait for the end of a pause, which does not show the pace
	Again               time.Duration // calls that got no slot poll then; 0 if they need not
}

// Answered takes an answer.
func (w *Window) Answered(a *Answer) {
	w.way.Took(max(0, a.Answered-a.Requested))
	w.sleep = a.Again
	if !a.Waits {
		w.gap, w.front = 0, max(w.front, a.Last)
		w.batch = min(MaxBatch, max(firstBatch, 2*a.Calls))
		return
	}
	w.batch = firstBatch
	// Slots follow the furthest that was granted before, if that is still to come. Otherwise the first one may be anywhere.
	from, to, n := w.front, a.Last, a.Granted
	if from <= a.Requested {
		from, n = a.First, n-1
	}
	if a.Next > 0 {
		to, n = a.Next, n+1
	}
	if n > 0 && to >= from && !a.Paused {
		gap := (to - from) / time.Duration(n)
		if w.gap > 0 {
			gap = (3*w.gap + gap) / 4
		}
		w.gap = gap
	}
	w.front = max(w.front, a.Last)
}

// Estimate returns about when a call with ahead waiting calls before it gets its slot, if the furthest held slot is at furthest; now if the
// pace is unknown.
func (w *Window) Estimate(now, furthest time.Duration, ahead int) time.Duration {
	return max(furthest, now) + time.Duration(min(int64(ahead)+1, int64(MaxEstimate/max(1, w.gap))))*w.gap
}

// MaxEstimate bounds estimates.
const MaxEstimate = 100 * 365 * 24 * time.Hour

// Bounds of a StoreQueue.
const (
	// MinQueued is how many of a process's calls are in the store's queue at least, unless it has fewer.
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

// Served records that a queued call was granted, while waiting others still wait in this process.
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

// Most returns how many calls belong in the store's queue.
func (q *StoreQueue) Most(reach time.Duration) int {
	if q.gap <= 0 {
		return MinQueued
	}
	return int(min(MaxQueued, max(MinQueued, 2*reach/q.gap)))
}

// Estimate returns about how long a call with ahead calls before it waits; 0 if the pace is unknown.
func (q *StoreQueue) Estimate(ahead int) time.Duration {
	return time.Duration(min(int64(ahead)+1, int64(MaxEstimate/max(1, q.gap)))) * q.gap
}
