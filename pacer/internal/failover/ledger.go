package failover

import (
	"slices"
	"sync"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A ledger is what this process knows that it and others were granted.
type ledger struct {
	mu   sync.Mutex
	keys map[store.Key]*record
}

// heed forgets what was reset since an epoch, as the store lists it; everything, if the list does not have each reset up to another epoch.
// It returns the epoch of the rest.
func (r *ledger) heed(resets []store.Reset, from, to store.Epoch) store.Epoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range resets {
		if e := resets[i].Epoch; e.Began == from.Began && e.Resets == from.Resets+1 {
			from = e
			r.undo(&resets[i])
		}
	}
	if from.Began != to.Began || from.Resets < to.Resets {
		r.keys = nil
		return to
	}
	return from
}

// undo forgets what a reset names. The caller holds mu.
func (r *ledger) undo(reset *store.Reset) {
	if reset.All {
		r.keys = nil
	}
	for _, k := range reset.Keys {
		if t := r.keys[k]; t != nil {
			*t = record{limit: t.limit, reset: int64(reset.Now)}
		}
	}
	for _, k := range reset.Resumed {
		if t := r.keys[k]; t != nil {
			t.paused = 0
		}
	}
}

// of returns the record of a limit, and makes one if there is none. The caller holds mu.
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
	if t.limit.Spec.Algorithm != 0 && !t.isOf(l) {
		*t = record{paused: t.paused, reset: t.reset} // what was charged under other numbers means nothing to an account of these
	}
	t.limit = *l
	return t
}

// isOf reports whether charges of a limit mean the same to the record as those that it has: they do not after its numbers have changed.
func (t *record) isOf(l *store.Limit) bool {
	a, b := &t.limit.Spec, &l.Spec
	return a.Algorithm == b.Algorithm && a.Interval == b.Interval && a.Buckets == b.Buckets
}

// forgot reports whether a charge was made before the account was reset.
func (t *record) forgot(c store.Charge) bool { return c.Made > 0 && c.Made <= t.reset }

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

// learned remembers what limits hold, some of it for calls of this process that ran meanwhile.
func (r *ledger) learned(limits []store.Limit, all []store.Holding, running []readings.Report, at store.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, own := int64(at), permitsOf(running)
	for i := range all {
		h := &all[i]
		if h.Taken <= 0 && len(h.Buckets) == 0 && h.Permits <= 0 && r.keys[limits[i].Key()] == nil {
			continue
		}
		t := r.of(&limits[i], now)
		if now <= t.reset {
			continue
		}
		t.held = held{at: now, front: now + max(0, h.Taken.Microseconds()), until: int64(h.Until), counts: t.held.counts[:0]}
		t.held.permits, t.held.own = h.Permits, own[limits[i].Key()]
		for _, b := range h.Buckets[max(0, len(h.Buckets)-maxBuckets):] {
			t.held.counts = append(t.held.counts, bucketUse{bucket: b.From, n: b.To})
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
			case t == nil, c.To == 0, !t.isOf(&stack.Limits[j]):
			case stack.Limits[j].Spec.Algorithm == specs.Window:
				// Answers overtake each other: what was granted later may be known already.
				if h := t.find(c.From); h != nil && int64(grants[i].Now) > t.asOf && c.Seen < h.own+c.To {
					return true
				}
			case t.own.meets(max(c.From, int64(grants[i].Now)), c.To):
				return true
			}
		}
	}
	return false
}

// granted remembers what the store's grants mean: the charge itself, and that everything before it was taken, because a limit grants the
// first free slot.
func (r *ledger) granted(stack *store.Stack, grants []store.Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range grants {
		g := &grants[i]
		now := int64(g.Now)
		if !g.OK {
			continue
		}
		for j := range stack.Limits {
			if !recorded(g.Charges[j], &stack.Limits[j]) {
				continue
			}
			t, c := r.of(&stack.Limits[j], now), g.Charges[j]
			if now <= t.reset { // the answer was overtaken
				continue
			}
			t.asOf = max(t.asOf, now)
			t.reached(g, j)
			if stack.Limits[j].Spec.Algorithm == specs.Window {
				h := t.bucket(c.From)
				h.n = max(h.n, c.Seen)
				h.own += c.To
				continue
			}
			if t.own = t.own.after(now-stack.Limits[j].Spec.Within).with(c.From, c.To); len(t.own) > maxSpans {
				t.own = slices.Delete(t.own, 0, 1)
			}
			from := min(c.From, int64(g.At))
			if g.Binds == j {
				from = now
			}
			t.take(from, c.To, now)
		}
		if g.Paused > 0 {
			r.pause(&stack.Limits[g.Binds], g.Paused, now)
		}
	}
}

// recorded reports whether a charge is one to remember: of a lane's part it may be zero, since a slot was lent, and permits are
// listed elsewhere.
func recorded(c store.Charge, l *store.Limit) bool {
	return c.To != 0 && (l.Spec.Algorithm == specs.GCRA || l.Spec.Algorithm == specs.Window)
}

// pause remembers a pause. The caller holds mu.
func (r *ledger) pause(l *store.Limit, until store.Instant, now int64) {
	t := r.of(l, now)
	t.paused = max(t.paused, until)
}

// released removes charges before they are given back: others may get them then.
func (r *ledger) released(l *store.Limit, c store.Charge, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.keys[l.Key()]
	switch {
	case t == nil, !t.isOf(l), !recorded(c, l), t.forgot(c):
	case l.Spec.Algorithm != specs.Window:
		t.own = t.own.without(c.From, c.To)
	case t.find(c.From) != nil:
		h := t.find(c.From)
		h.own = max(0, h.own-n)
	}
}

// settled sets what calls really cost before the store receives it: others may get the difference then, so no store may be reminded of it.
func (r *ledger) settled(stack *store.Stack, notes []store.Note) {
	for i := range notes {
		n := &notes[i]
		if n.Kind != store.NoteSettle || n.Local || n.Actual >= n.Cost {
			continue
		}
		l, less := &stack.Limits[n.Limit], n.Cost-n.Actual
		r.released(l, n.Charge, less)
		r.mu.Lock()
		if t := r.keys[l.Key()]; t != nil && t.isOf(l) && recorded(n.Charge, l) && !t.forgot(n.Charge) {
			if l.Spec.Algorithm != specs.Window {
				t.spans = t.spans.without(max(n.Charge.From, n.Charge.To-less*l.Spec.Interval), n.Charge.To)
			} else if h := t.find(n.Charge.From); h != nil {
				h.n = max(0, h.n-less)
			}
		}
		r.mu.Unlock()
	}
}

// releasedAll is called before grants are given back.
func (r *ledger) releasedAll(stack *store.Stack, grants []store.Grant) {
	for i := range grants {
		for j, c := range grants[i].Charges {
			r.released(&stack.Limits[j], c, c.To)
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
			case t == nil, !t.isOf(&stack.Limits[j]), !recorded(c, &stack.Limits[j]), t.forgot(c):
			case stack.Limits[j].Spec.Algorithm != specs.Window:
				t.spans = t.spans.without(c.From, c.To)
			case t.find(c.From) != nil:
				h := t.find(c.From)
				h.n = max(0, h.n-c.To)
			}
		}
	}
}

// messages returns all that is remembered, in pieces that a store can take at once. If the store is not known to have forgotten anything,
// messages leaves out what rates were charged by others: they may have given it back since.
func (r *ledger) messages(now store.Instant, forgotten bool) []readings.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var m readings.Reports
	for _, t := range r.keys {
		if t.over() > int64(now) {
			m.Add(&t.limit, t.notes(0, now, forgotten)...)
		}
	}
	return m.All
}
