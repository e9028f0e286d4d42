package failover

import (
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// The way from a record to a local account when the store is lost, and from there to the store when it is back.

// startLocal returns what a local account must know of the store's holdings, as far as this process knew them.
//
// The line of a rate goes on behind the fleet's: behind the last slot that is known, and those that others must have got
// since. N lines of one call per N intervals are as good as the one line of all if they take turns, so each process begins
// when it is its turn, by its rank, on a grid that all of them see alike: store time.
//
// When the store was lost, each process knows by its own first request that failed. One that had nothing to request finds out late: its
// line then begins late by as much, and that much of its share is idle, but no slot is granted twice. So a process whose slots
// are far away need not check often. To assume an earlier loss would be wrong: until the store is lost, others get slots.
func (t *record) startLocal(index int, own specs.Spec, away absence, limit, now int64) []store.Note {
	var notes []store.Note
	claim := func(from, to int64) {
		notes = append(notes, store.Note{Kind: store.NoteClaim, Limit: index, Charge: store.Charge{From: from, To: to}})
	}
	n := int64(away.processes)
	if own.Algorithm == specs.GCRA {
		whole := t.limit.Spec.Interval
		known := t.front(t.asOf)
		front := max(since(known, t.asOf, away), since(t.held.front, t.held.at, away))
		// A limit that was idle may begin with a burst, unless it is less than a call for each.
		if n > 1 && (front > now-n*whole || limit < n) {
			front = max(now, front+min(own.Interval, max(whole, unsureFor)))
			if known > t.asOf { // others reach as far ahead as this process did, and may have done so until it found the store lost
				front = max(front, int64(max(away.since, away.found))+min(t.ahead, maxAhead))
			}
			turn := (front - int64(away.rank)*(own.Interval/n)) % own.Interval
			claim(now, front+(own.Interval-turn)%own.Interval)
		}
		for _, s := range t.spans {
			claim(s.from, s.to)
		}
	}
	for _, counts := range [][]bucketUse{t.counts, t.held.counts} {
		for _, h := range counts {
			claim(h.bucket, (h.n+n-1)/n)
		}
	}
	// A short window turns over faster than heartbeats bring what others were granted in it: none of the one in which the store was lost
	// is left.
	if period := own.Interval * (own.Buckets + 1); own.Algorithm == specs.Window && n > 1 && period <= shortWindow {
		first := max(int64(away.since), now-period) // what is earlier does not matter any more
		last := min(max(int64(away.since), int64(away.found))+min(max(t.ahead, unsureFor), period), now+period)
		for b := first - first%own.Interval; b <= last; b += period { // each fills all windows that it is in
			claim(b, own.Limit)
		}
		if last >= first {
			claim(last-last%own.Interval, own.Limit)
		}
	}
	if t.paused > store.Instant(now) {
		notes = append(notes, store.Pause(index, t.paused.Sub(store.Instant(now))))
	}
	return notes
}

// unsureFor is how far, in µs, others may be ahead of what this process knows: a few round trips. The local line of a rate begins as much
// later, or one turn of all processes, if that is less.
const unsureFor = 100_000

// maxAhead bounds, in µs, how far others are taken to be ahead because this process was: no calls that wait reach further, see
// waiters.MaxReach.
const maxAhead = 2_000_000

// shortWindow is the longest period, in µs, of a window that none is left of when the store is lost.
const shortWindow = int64(heartbeatEvery / time.Microsecond)

// since returns how far a line reached when the store was found lost, if it reached up to front at asOf: others have got slots meanwhile,
// unless there was no line.
func since(front, asOf int64, away absence) int64 {
	if front <= asOf {
		return front
	}
	return front + max(0, int64(max(away.since, away.found))-asOf)
}

// others returns how many permits of this process's share other processes held at the last heartbeat: those beyond the rest of the limit.
func (t *record) others(share, now int64) int64 {
	if t.held.until <= now {
		return 0
	}
	return max(0, t.held.permits-t.held.own-(t.limit.Spec.Limit-share))
}

// due returns the part of a record of spent slots that the store must charge: for a window the count of each bucket, for a rate as many
// calls as still have an effect, and for an allowance that nothing is left. The store adds them to those of others, which may have gone in
// the same instant; the last call of a process without others counts from when it went.
//
// A call of a rate that has some of its interval left counts as a whole one. So what n processes report is at least what the upstream
// still counts: it has a burst that drains n times as fast as one of theirs, and so never more in it than all of theirs. If there are more
// processes than calls in a burst, that would leave up to n calls idle, and only a call that is less than one emission interval old counts.
// Of a rate, a note has when that was so, and how long each call takes, for stillDue: a store ignores it.
func (t *record) due(now int64) []store.Note {
	var notes []store.Note
	if d := t.paused.Sub(store.Instant(now)); d > 0 {
		notes = append(notes, store.Pause(0, d))
	}
	for _, h := range t.counts {
		if h.n > 0 {
			notes = append(notes, store.Note{Kind: store.NoteSettle, Charge: store.Charge{From: h.bucket}, Actual: h.n})
		}
	}
	if n := len(t.spans); n > 0 && t.limit.Spec.Within > 0 { // it may be in a window still
		notes = append(notes, store.Note{Kind: store.NoteClaim, Charge: store.Charge{From: t.spans[0].from, To: min(now, t.spans[n-1].to)}})
	}
	more := t.extra
	if left := t.length(now); left > 0 {
		more += left / t.each
		last := now + left%t.each - t.each // began then
		switch {
		case t.each == t.limit.Spec.Interval:
			notes = append(notes, store.Note{Kind: store.NoteClaim, Charge: store.Charge{From: last, To: last + t.each}})
		case left%t.each > 0 && (t.each <= t.limit.Spec.Limit*t.limit.Spec.Interval || last+t.limit.Spec.Interval > now):
			more++
		}
	}
	if more > 0 {
		notes = append(notes, store.Note{Kind: store.NoteSettle, At: store.Instant(now), Value: t.each, Actual: more})
	}
	return notes
}

// stillDue takes from notes of due the calls of rates that have no effect any more at a later time.
func stillDue(now store.Instant, notes []store.Note) []store.Note {
	notes = slices.Clone(notes) // an earlier request may still read them
	for i := range notes {
		if n := &notes[i]; n.Kind == store.NoteSettle && n.Value > 0 {
			n.Actual = max(0, n.Actual-int64(now-n.At)/n.Value)
		}
	}
	return notes
}

// owe adds to a record of what was spent that calls cost so much more than they were charged: those of a window in a bucket.
func (t *record) owe(bucket, n int64) {
	if t.limit.Spec.Algorithm == specs.Window {
		t.bucket(bucket).n += n
	} else {
		t.extra += n
	}
}

// paid notes that the store received a note of due.
func (t *record) paid(n *store.Note) {
	switch {
	case n.Kind == store.NoteAnswer:
		t.paused = 0
	case t.limit.Spec.Algorithm == specs.Window:
		t.bucket(n.Charge.From).n = 0
	default:
		t.spans, t.extra = nil, 0
	}
}
