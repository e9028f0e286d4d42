package charges

import (
	"maps"
	"slices"
	"sync"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// maxRecords bounds the keys that a process remembers; the next ones push out others.
const maxRecords = 1 << 16

// A Ledger is what this process knows of the store's accounts, to remind a store that has forgotten, and to begin behind it without the store.
type Ledger struct {
	mu       sync.Mutex
	keys     map[store.Key]*record
	furthest store.Instant // the latest slot that the store granted
}

// Latest returns the latest slot that the store granted.
func (r *Ledger) Latest() store.Instant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.furthest
}

// Heed forgets what was reset since an epoch, as the store lists it; everything, if the list does not have each reset up to another epoch. It
// returns the epoch of the rest, and the resets for calls that wait.
func (r *Ledger) Heed(resets []store.Reset, from, to store.Epoch, now store.Instant) (known store.Epoch, news []store.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := false
	for i := range resets {
		reset := &resets[i]
		if e := reset.Epoch; e.Began != from.Began || e.Resets != from.Resets+1 {
			continue
		}
		from, all = reset.Epoch, all || reset.All
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
		for _, k := range slices.Concat(reset.Keys, reset.Resumed) {
			news = append(news, store.Change{Kind: store.Resumed, Policy: k.Policy, Scope: k.Scope, Now: reset.Now})
		}
	}
	if from.Began != to.Began || from.Resets < to.Resets {
		from, all = to, true
	}
	if all {
		r.keys = nil
		news = append(news, store.Change{Kind: store.Resumed, Now: now})
	}
	return from, news
}

// of returns the record of a limit, and makes one if there is none. The caller holds mu.
func (r *Ledger) of(l *store.Limit, now int64) *record {
	k := l.Key()
	t := r.keys[k]
	if t == nil {
		if r.keys == nil {
			r.keys = make(map[store.Key]*record)
		}
		if len(r.keys) >= maxRecords {
			r.evict(now)
		}
		t = &record{limit: *l}
		r.keys[k] = t
	}
	if !t.isOf(l) {
		*t = record{paused: t.paused, reset: t.reset} // what was charged under other numbers means nothing to an account of these
	}
	t.limit = *l
	return t
}

// evict makes room: it drops the records that mean nothing any more, or else a part of the rest.
func (r *Ledger) evict(now int64) {
	maps.DeleteFunc(r.keys, func(_ store.Key, t *record) bool { return t.over() <= now })
	for k := range r.keys {
		if len(r.keys) < maxRecords-maxRecords/16 {
			return
		}
		delete(r.keys, k)
	}
}

// counting returns the record in which a charge counts that was made before; nil if it counts nowhere. The caller holds mu.
func (r *Ledger) counting(l *store.Limit, c store.Charge) *record {
	t := r.keys[l.Key()]
	if t == nil || !t.isOf(l) || !recorded(c, l) || c.Made > 0 && c.Made <= t.reset {
		return nil
	}
	return t
}

// Learned remembers what limits hold, some of it for calls of this process that ran meanwhile.
func (r *Ledger) Learned(limits []store.Limit, all []store.Holding, running []readings.Report, at store.Instant) {
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
		t.held = held{at: now, front: now + max(0, h.Taken.Microseconds()), permits: h.Permits, own: own[limits[i].Key()], until: int64(h.Until)}
		for j := range t.counts {
			t.counts[j].held = 0
		}
		for _, b := range h.Buckets {
			t.counts.at(b.From).held = b.To
		}
	}
}

// Used returns up to n limits with a scope that this process has used since an instant.
func (r *Ledger) Used(since int64, n int) (all []store.Limit) {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// Contradicts reports whether grants show that the store has lost charges of this process in the same epoch, by a replica without the last
// writes or a key that was evicted: it granted again what this process has, or counts less than this process was granted by itself.
func (r *Ledger) Contradicts(stack *store.Stack, grants []store.Grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range grants {
		for j, c := range grants[i].Charges {
			if t := r.counting(&stack.Limits[j], c); t != nil && t.contradicts(c, int64(grants[i].Now)) {
				return true
			}
		}
	}
	return false
}

// Granted remembers what the store's grants mean.
func (r *Ledger) Granted(stack *store.Stack, grants []store.Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range grants {
		g := &grants[i]
		if !g.OK {
			continue
		}
		r.furthest = max(r.furthest, g.At)
		for j := range stack.Limits {
			if l := &stack.Limits[j]; recorded(g.Charges[j], l) {
				r.of(l, int64(g.Now)).granted(g, j)
			}
		}
		if g.Paused > 0 {
			t := r.of(&stack.Limits[g.Binds], int64(g.Now))
			t.paused = max(t.paused, g.Paused)
		}
	}
}

// GivenBack is called before this process gives grants back, or any process may (elsewhere): others may have them then, so no store is reminded.
func (r *Ledger) GivenBack(stack *store.Stack, grants []store.Grant, elsewhere bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range grants {
		for j, c := range grants[i].Charges {
			if t := r.counting(&stack.Limits[j], c); t != nil {
				t.givenBack(c, c, elsewhere)
			}
		}
	}
}

// Settled is GivenBack of the difference, before the store receives what calls really cost.
func (r *Ledger) Settled(stack *store.Stack, notes []store.Note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range notes {
		n := &notes[i]
		if n.Kind != store.NoteSettle || n.Local || n.Actual >= n.Cost {
			continue
		}
		l, c, part := &stack.Limits[n.Limit], n.Charge, store.Charge{To: n.Cost - n.Actual}
		if l.Spec.Algorithm == specs.GCRA {
			part = store.Charge{From: max(c.From, c.To-part.To*l.Spec.Interval), To: c.To}
		}
		if t := r.counting(l, c); t != nil {
			t.givenBack(c, part, false)
		}
	}
}

// Answered remembers what the store received of pauses.
func (r *Ledger) Answered(limits []store.Limit, notes []store.Note, now store.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range notes {
		switch n := &notes[i]; {
		case n.Kind == store.NoteAnswer && n.Remaining > 0:
			r.of(&limits[n.Limit], int64(now)).paused = 0
		case n.Empties() > 0:
			t := r.of(&limits[n.Limit], int64(now))
			t.paused = max(t.paused, now.Add(n.Empties()))
		}
	}
}

// Messages returns all that is remembered, in pieces that a store can take at once. If the store is not known to have forgotten anything,
// it omits what rates granted others, who may have given it back since.
func (r *Ledger) Messages(now store.Instant, forgotten bool) []readings.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var m readings.Reports
	for _, t := range r.keys {
		if t.over() > int64(now) {
			m.Add(&t.limit, t.notes(now, forgotten)...)
		}
	}
	return m.All
}
