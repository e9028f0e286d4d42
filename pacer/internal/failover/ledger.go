package failover

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/notes"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// startLocal returns what a local account is to know of what the store was known to hold.
//
// The line of a rate goes on behind the fleet's: behind the last slot that is known, and those that others must have got
// since. N lines of one call per N intervals are as good as the one line of all if they take turns, so each process begins
// when it is its turn, by its rank, on a grid that all of them see alike: store time.
//
// When the store was lost, each process knows by its own first request that failed. One that had nothing to request finds out late: its
// line then begins late by as much, and that much of its share is idle, but no slot is granted twice. So a process whose slots
// are far away need not check often. To assume an earlier loss would be wrong: until the store is lost, others get slots.
func (t *record) startLocal(index int, own policies.Spec, away absence, limit, now int64) []store.Note {
	var notes []store.Note
	claim := func(from, to int64) {
		notes = append(notes, store.Note{Kind: store.NoteClaim, Limit: index, Charge: store.Charge{From: from, To: to}})
	}
	n := int64(away.processes)
	if own.Algorithm == policies.GCRA {
		whole := t.limit.Spec.Interval
		front := max(since(t.front(t.asOf), t.asOf, away), since(t.held.front, t.held.at, away))
		// A limit that was idle may begin with a burst, unless it is less than a call for each.
		if n > 1 && (front > now-n*whole || limit < n) {
			front = max(now, front+min(own.Interval, max(whole, unsureFor)))
			turn := (front - int64(away.rank)*(own.Interval/n)) % own.Interval
			claim(now, front+(own.Interval-turn)%own.Interval)
		}
		for _, s := range t.spans {
			claim(s.from, s.to)
		}
	}
	for _, h := range t.counts {
		claim(h.bucket, (h.n+n-1)/n)
	}
	// A short window turns over faster than heartbeats bring what others were granted in it: none of the one in which the store was lost
	// is left.
	if period := own.Interval * (own.Buckets + 1); own.Algorithm == policies.Window && n > 1 && period <= shortWindow {
		last := max(int64(away.since), int64(away.found)) + min(max(t.ahead, unsureFor), period)
		for b := int64(away.since) - int64(away.since)%own.Interval; b <= last; b += own.Interval {
			claim(b, own.Limit)
		}
	}
	if t.paused > store.Instant(now) {
		notes = append(notes, store.Note{Kind: store.NotePause, Limit: index, For: t.paused.Sub(store.Instant(now))})
	}
	return notes
}

// unsureFor is how far, in µs, others may be ahead of what this process knows: a few round trips. The local line of a rate begins as much
// later, or one turn of all processes, if that is less.
const unsureFor = 100_000

// shortWindow is the longest period, in µs, of a window that none is left of when the store is lost.
const shortWindow = int64(heartbeatEvery / time.Microsecond)

// since returns where a line that reached up to front, as of an instant, reached when the store was lost: others have got slots
// meanwhile, if there was a line.
func since(front, asOf int64, away absence) int64 {
	if front <= asOf {
		return front
	}
	return front + max(0, int64(away.since)-asOf)
}

// others returns how many permits of the share of this process others hold, who have given none back as far as it knows: of a limit, as
// many as exceed what is not its own.
func (t *record) others(share, mine int64, now int64) int64 {
	if t.held.until <= now {
		return 0
	}
	return max(0, t.held.permits-mine-(t.limit.Spec.Limit-share))
}

// due returns what of a record of spent slots the store is to charge: of a window what each bucket got, of a rate as many
// calls as still have an effect beyond the last one, which counts from when it went.
func (t *record) due(now int64) []store.Note {
	var notes []store.Note
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
		last := now + left%t.each - t.each // began then
		notes = append(notes, store.Note{Kind: store.NoteClaim, Charge: store.Charge{From: last, To: last + t.limit.Spec.Interval}})
		more += left / t.each
	}
	if more > 0 {
		notes = append(notes, store.Note{Kind: store.NoteSettle, Actual: more})
	}
	return notes
}

// owe adds to a record of what was spent that calls cost so much more than they were charged: those of a window in a bucket.
func (t *record) owe(bucket, n int64) {
	if t.limit.Spec.Algorithm == policies.Window {
		t.bucket(bucket).n += n
	} else {
		t.extra += n
	}
}

// paid notes that the store received a note of due.
func (t *record) paid(n *store.Note) {
	if t.limit.Spec.Algorithm == policies.Window {
		t.bucket(n.Charge.From).n = 0
	} else {
		t.spans, t.extra = nil, 0
	}
}

// What a process remembers of the store's accounts, so that it can remind a store that has forgotten them, and so that a
// process that has lost the store begins behind what was granted. It is bounded: in keys, and in what is kept of each.
const (
	// maxRecorded bounds the keys that a process remembers; the next ones push out others.
	maxRecords = 1 << 16
	// maxSpans bounds the intervals of a rate that are remembered. When there are more, the earliest become one.
	maxSpans = 256
	// maxRecordedBuckets bounds the buckets of a window that are remembered, of the latest: more than any policy counts.
	maxBuckets = 2 * policies.MaxBuckets
)

// A record is what is known of one limit's account, as the fleet's store keeps it.
type record struct {
	limit  store.Limit
	spans  spans       // of a rate: virtual time that is taken
	own    spans       // the part of it that this process was granted and has not given back
	counts []bucketUse // of a window: what buckets hold at least, in order
	paused store.Instant
	tail   int64 // of a rate: where the last interval that was ever taken ended
	asOf   int64 // when the store last answered about it
	seeded int   // the absence for which the local account knows it
	ahead  int64 // how far ahead of the store's time the last slots were that this process was granted
	each   int64 // of a rate that was spent locally: the length of one call
	extra  int64 // of a rate: calls that cost more than they were charged
	held   held  // what the last heartbeat brought
}

// held is what an account held when a heartbeat looked, no matter which process was granted it. It says how a process begins that loses
// the store, and nothing that the store is reminded of.
type held struct {
	at      int64
	front   int64 // of a rate: as if all that is taken came first
	permits int64 // that were out
	until   int64 // when the last of their leases runs out
}

// bucketUse is a bucket and what it holds: at least, and of this process.
type bucketUse struct{ bucket, n, own int64 }

// spans are intervals [from, to) of virtual time, in order, disjoint.
type spans []span

type span struct{ from, to int64 }

// after returns the spans without those that are past.
func (s spans) after(now int64) spans {
	return slices.Delete(s, 0, sort.Search(len(s), func(i int) bool { return s[i].to > now }))
}

// with returns the spans and one more, which may meet others.
func (s spans) with(from, to int64) spans {
	if from >= to {
		return s
	}
	first := sort.Search(len(s), func(i int) bool { return s[i].to >= from })
	last := first
	for ; last < len(s) && s[last].from <= to; last++ {
		from, to = min(from, s[last].from), max(to, s[last].to)
	}
	return slices.Replace(s, first, last, span{from, to})
}

// without returns the spans without an interval.
func (s spans) without(from, to int64) spans {
	first := sort.Search(len(s), func(i int) bool { return s[i].to > from })
	last := first
	var kept [2]span
	n := 0
	for ; last < len(s) && s[last].from < to; last++ {
		if one := s[last]; one.from < from {
			kept[n] = span{one.from, from}
			n++
		}
		if one := s[last]; to < one.to {
			kept[n] = span{to, one.to}
			n++
		}
	}
	if first == last || from >= to {
		return s
	}
	return slices.Replace(s, first, last, kept[:n]...)
}

// meets reports whether one of the spans has something in common with an interval.
func (s spans) meets(from, to int64) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].to > from })
	return from < to && i < len(s) && s[i].from < to
}

// take adds an interval, and forgets what is past. If the windows of the rate are exact, it is not past while it is in one.
func (t *record) take(from, to, now int64) {
	t.tail = max(t.tail, to)
	past := now - t.limit.Spec.Within
	t.spans = t.spans.after(past)
	if to <= past {
		return
	}
	if t.spans = t.spans.with(from, to); len(t.spans) > maxSpans {
		t.spans[1].from = t.spans[0].from
		t.spans = slices.Delete(t.spans, 0, 1)
	}
}

// front returns until when everything is taken from now on. If that is past, it is where the last interval ended.
func (t *record) front(now int64) int64 {
	i := sort.Search(len(t.spans), func(i int) bool { return t.spans[i].to > now })
	if i == len(t.spans) || t.spans[i].from > now {
		return min(t.tail, now)
	}
	return t.spans[i].to
}

// length returns how much of the intervals is still to come.
func (t *record) length(now int64) int64 {
	sum := int64(0)
	for _, s := range t.spans {
		sum += max(0, s.to-max(s.from, now))
	}
	return sum
}

// bucket returns the use of a bucket, made if there is none.
func (t *record) bucket(b int64) *bucketUse {
	i, found := slices.BinarySearchFunc(t.counts, b, func(h bucketUse, b int64) int { return int(max(-1, min(1, h.bucket-b))) })
	if !found {
		t.counts = slices.Insert(t.counts, i, bucketUse{bucket: b})
		if len(t.counts) > maxBuckets {
			t.counts = slices.Delete(t.counts, 0, 1)
			i = max(0, i-1)
		}
	}
	return &t.counts[i]
}

// find returns a bucket; nil if nothing is known of it.
func (t *record) find(b int64) *bucketUse {
	for i := range t.counts {
		if t.counts[i].bucket == b {
			return &t.counts[i]
		}
	}
	return nil
}

// over returns when the record means nothing any more, as seen by its policy; a little later for calendars.
func (t *record) over() int64 {
	ends := max(int64(t.paused), t.held.until, t.held.front)
	if n := len(t.spans); n > 0 {
		ends = max(ends, t.spans[n-1].to+t.limit.Spec.Within)
	}
	if n := len(t.counts); n > 0 {
		ends = max(ends, t.counts[n-1].bucket+(t.limit.Spec.Buckets+2)*t.limit.Spec.Interval)
	}
	return ends
}

// A ledger is what this process knows that it and others were granted.
type ledger struct {
	mu   sync.Mutex
	keys map[store.Key]*record // the whole upstream, for its pause, has the empty key
}

// of returns the record of a limit, made if there is none. The caller holds mu.
func (r *ledger) of(l *store.Limit, now int64) *record {
	k := l.Key()
	t := r.keys[k]
	if t == nil {
		if r.keys == nil {
			r.keys = make(map[store.Key]*record)
		}
		if len(r.keys) >= maxRecords {
			r.evict(now)
		}
		t = &record{}
		r.keys[k] = t
	}
	t.limit = *l
	return t
}

// evict makes room: what means nothing any more goes, or else a part of the rest.
func (r *ledger) evict(now int64) {
	for k, t := range r.keys {
		if t.over() <= now {
			delete(r.keys, k)
		}
	}
	for k := range r.keys {
		if len(r.keys) < maxRecords-maxRecords/16 {
			return
		}
		delete(r.keys, k)
	}
}

// learned remembers what limits hold.
func (r *ledger) learned(limits []store.Limit, all []store.Holding, at store.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := int64(at)
	for i := range all {
		h := &all[i]
		if h.Taken <= 0 && len(h.Buckets) == 0 && h.Permits <= 0 && r.keys[limits[i].Key()] == nil {
			continue
		}
		t := r.of(&limits[i], now)
		t.held = held{at: now, front: now + max(0, h.Taken.Microseconds()), permits: h.Permits, until: int64(h.Until)}
		for _, b := range h.Buckets {
			if one := t.bucket(b.From); one.bucket == b.From {
				one.n = max(one.n, b.To)
			}
		}
	}
}

// used returns up to n limits that this process has used since an instant.
func (r *ledger) used(since int64, n int) []store.Limit {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []store.Limit
	for k, t := range r.keys {
		if len(all) == n {
			break
		}
		if k.Scope != "" && t.asOf >= since {
			all = append(all, t.limit)
		}
	}
	return all
}

// contradicts reports whether grants show that the store has lost charges of this process, though it believes that it is in the
// same epoch: a replica without the last writes has taken over, or a single key was evicted. It granted again what this
// process has and did not give back, or counts less than this process was granted by itself.
func (r *ledger) contradicts(stack *store.Stack, grants []store.Grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range grants {
		for j, c := range grants[i].Charges {
			t := r.keys[stack.Limits[j].Key()]
			switch {
			case t == nil, c.To == 0:
			case stack.Limits[j].Spec.Algorithm == policies.Window:
				// Answers overtake each other: what was granted later may be known already.
				if h := t.find(c.From); h != nil && int64(grants[i].Now) > t.asOf && c.Seen < h.own+max(c.To, -c.To) {
					return true
				}
			case t.own.meets(max(c.From, int64(grants[i].Now)), c.To):
				return true
			}
		}
	}
	return false
}

// granted remembers what the store's grants mean: the charge itself, and that everything before it was taken, because a
// limit grants the first slot that there is.
func (r *ledger) granted(stack *store.Stack, grants []store.Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range grants {
		g := &grants[i]
		now := int64(g.Now)
		if g.Binds == store.BindsUpstream {
			r.pause(&store.Limit{}, g.At, now)
		}
		if !g.OK {
			continue
		}
		for j := range stack.Limits {
			if !recorded(g.Charges[j], &stack.Limits[j]) {
				continue
			}
			t, c := r.of(&stack.Limits[j], now), g.Charges[j]
			t.asOf = max(t.asOf, now)
			t.ahead = max(int64(g.At)-now, t.ahead-t.ahead/8)
			if stack.Limits[j].Spec.Algorithm == policies.Window {
				h := t.bucket(c.From)
				h.n = max(h.n, c.Seen)
				h.own += max(c.To, -c.To)
				continue
			}
			if t.own = t.own.after(now).with(c.From, c.To); len(t.own) > maxSpans {
				t.own = slices.Delete(t.own, 0, 1)
			}
			from := min(c.From, int64(g.At))
			if g.Binds == j {
				if from = now; g.Paused {
					from = c.From
				}
			}
			t.take(from, c.To, now)
		}
		if g.Paused {
			r.pause(&stack.Limits[g.Binds], g.At, now)
		}
	}
}

// recorded reports whether a charge is one to remember: of a lane's part it may be zero, since a slot was lent, and permits are
// listed elsewhere.
func recorded(c store.Charge, l *store.Limit) bool {
	return c.To != 0 && l.Spec.Algorithm != policies.Leases
}

// pause remembers a pause. The caller holds mu.
func (r *ledger) pause(l *store.Limit, until store.Instant, now int64) {
	t := r.of(l, now)
	t.paused = max(t.paused, until)
}

// released is called before charges are given back: from then on somebody else may have them.
func (r *ledger) released(l *store.Limit, c store.Charge, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.keys[l.Key()]
	switch {
	case t == nil, !recorded(c, l):
	case l.Spec.Algorithm != policies.Window:
		t.own = t.own.without(c.From, c.To)
	case t.find(c.From) != nil:
		h := t.find(c.From)
		h.own = max(0, h.own-n)
	}
}

// settled is called before the store hears what calls really cost: from then on somebody else may have what they did not need, and nobody
// is to be reminded of it.
func (r *ledger) settled(stack *store.Stack, notes []store.Note) {
	for i := range notes {
		n := &notes[i]
		if n.Kind != store.NoteSettle || n.Local || n.Actual >= n.Cost {
			continue
		}
		l, less := &stack.Limits[n.Limit], n.Cost-n.Actual
		r.released(l, n.Charge, less)
		r.mu.Lock()
		if t := r.keys[l.Key()]; t != nil && recorded(n.Charge, l) {
			if l.Spec.Algorithm != policies.Window {
				t.spans = t.spans.without(max(n.Charge.From, n.Charge.To-less*l.Spec.Interval), n.Charge.To)
			} else if h := t.find(n.Charge.From); h != nil {
				h.n = max(0, h.n-less)
			}
		}
		r.mu.Unlock()
	}
}

// releasedAll is called before grants are given back.
func (r *ledger) releasedAll(b *store.Batch) {
	for i := range b.Grants {
		for j, c := range b.Grants[i].Charges {
			r.released(&b.Stack.Limits[j], c, max(c.To, -c.To))
		}
	}
}

// cancelled forgets what was given back.
func (r *ledger) cancelled(stack *store.Stack, grants []store.Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range grants {
		for j, c := range grants[i].Charges {
			t := r.keys[stack.Limits[j].Key()]
			switch {
			case t == nil, !recorded(c, &stack.Limits[j]):
			case stack.Limits[j].Spec.Algorithm != policies.Window:
				t.spans = t.spans.without(c.From, c.To)
			case t.find(c.From) != nil:
				h := t.find(c.From)
				h.n = max(0, h.n-max(c.To, -c.To))
			}
		}
	}
}

// clear forgets everything.
func (r *ledger) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = nil
}

// notes returns a record as notes for a store: Limit is index. Of a rate, what lies between two intervals and is too
// short for a call goes with them: a store does not keep it. Of a rate with exact windows each start counts.
func (t *record) notes(index int, now store.Instant) []store.Note {
	var notes []store.Note
	for i := 0; i < len(t.spans); i++ {
		one := t.spans[i]
		for t.limit.Spec.Most == 0 && i+1 < len(t.spans) && t.spans[i+1].from-one.to < t.limit.Spec.Interval {
			i++
			one.to = t.spans[i].to
		}
		if one.to > int64(now)-t.limit.Spec.Within {
			notes = append(notes, store.Note{Kind: store.NoteClaim, Limit: index, Charge: store.Charge{From: one.from, To: one.to}})
		}
	}
	for _, h := range t.counts {
		if h.n > 0 {
			notes = append(notes, store.Note{Kind: store.NoteClaim, Limit: index, Charge: store.Charge{From: h.bucket, To: h.n}})
		}
	}
	if t.paused > now {
		notes = append(notes, store.Note{Kind: store.NotePause, Limit: index, For: t.paused.Sub(now)})
	}
	return notes
}

// messages returns all that is remembered, in pieces that a store can take at once.
func (r *ledger) messages(now store.Instant) []notes.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var m notes.Reports
	for k, t := range r.keys {
		switch {
		case t.over() <= int64(now):
			delete(r.keys, k)
		case k == (store.Key{}):
			m.Add(nil, t.notes(store.WholeUpstream, now)...)
		default:
			m.Add(&t.limit, t.notes(0, now)...)
		}
	}
	return m.All
}
