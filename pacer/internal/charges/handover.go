package charges

import (
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// startLocal returns claims, of what the store held, for the local account of limit number index. This process has own of that limit.
//
// The line of a rate goes on behind the fleet's: behind the last slot that is known, and those that others must have got since. N lines of one
// call per N intervals are as good as the one line of all if they take turns, so each process begins at its turn, by its rank, on a grid of
// store time. One that had no request under way finds the loss late: its line begins late by as much, but no slot is granted twice. To assume
// an earlier loss would be wrong: until the store is lost, others get slots.
func (t *record) startLocal(index int, own *specs.Spec, away *Absence, limit, now int64) (notes []store.Note) {
	n := int64(away.Processes)
	if own.Algorithm == specs.GCRA {
		whole := t.limit.Spec.Interval
		known := t.front(t.asOf)
		front := max(away.reached(known, t.asOf), away.reached(t.held.front, t.held.at))
		// A limit that was idle may begin with a burst, unless it is less than a call for each.
		if n > 1 && (front > now-n*whole || limit < n) {
			front = max(now, front+min(own.Interval, max(whole, unsureFor)))
			if known > t.asOf { // others reach as far ahead as this process did, and may have done so until it found the store lost
				front = max(front, away.latest()+min(t.ahead, maxAhead))
			}
			turn := (front - int64(away.Rank)*(own.Interval/n)) % own.Interval
			notes = append(notes, claim(index, now, front+(own.Interval-turn)%own.Interval))
		}
		for _, s := range t.spans {
			notes = append(notes, claim(index, s.from, s.to))
		}
	}
	for _, h := range t.counts {
		notes = append(notes, claim(index, h.bucket, (max(h.n, h.held)+n-1)/n))
	}
	// A short window turns over faster than heartbeats bring what others got: the one in which the store was lost is full.
	if period := own.Interval * (own.Buckets + 1); own.Algorithm == specs.Window && n > 1 && period <= shortWindow {
		first := max(int64(away.Since), now-period) // what is earlier does not matter any more
		last := min(away.latest()+min(max(t.ahead, unsureFor), period), now+period)
		for b := first - first%own.Interval; b <= last; b += period { // each fills all windows that it is in
			notes = append(notes, claim(index, b, own.Limit))
		}
		if last >= first {
			notes = append(notes, claim(index, last-last%own.Interval, own.Limit))
		}
	}
	return append(notes, pauseOf(t.paused, index, store.Instant(now))...)
}

// HeartbeatEvery is how often a process of a small fleet learns what others were granted.
const HeartbeatEvery = 3 * time.Second

const (
	// unsureFor is how far, in µs, others may be ahead of what this process knows: a few round trips. A local line begins at most as much later.
	unsureFor = 100_000
	// maxAhead bounds, in µs, how far others are taken to be ahead because this process was: see dispatch.MaxReach.
	maxAhead = 2_000_000
	// shortWindow is the longest period, in µs, of a window that none is left of when the store is lost.
	shortWindow = int64(HeartbeatEvery / time.Microsecond)
)

// latest returns until when the store may have granted slots to others.
func (a *Absence) latest() int64 { return int64(max(a.Since, a.Found)) }

// reached returns how far a line that reached up to front at asOf had come when the store was found lost: others have got slots since.
func (a *Absence) reached(front, asOf int64) int64 {
	if front <= asOf {
		return front
	}
	return front + max(0, a.latest()-asOf)
}

// others returns how many permits of this process's share other processes held at the last heartbeat: those beyond the rest of the limit.
func (t *record) others(share, now int64) int64 {
	if t.held.until <= now {
		return 0
	}
	return max(0, t.held.permits-t.held.own-(t.limit.Spec.Limit-share))
}
