package pacer

import (
	"math"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// What an upstream says is left of a limit is compared with what this fleet has charged, so that calls of other
// consumers of the same credential are seen. It is right although answers overtake each other and calls are on their
// way, because it only ever tightens, and because the store counts tracked calls that the upstream cannot have seen.
//
// Most answers say what is known already. A process tells the store only what is material: the first word on a key,
// a step of half a per cent of the limit, every change near the end, and no more than one in a while.
const (
	// materialStep is the part of a limit by which what is left must have moved, as a divisor: half a per cent.
	materialStep = 200
	// nearEnd is when every change counts, as a divisor: the last twentieth of the limit.
	nearEnd = 20
	// maxStepGrowth is up to how many steps a key may move unsaid, once the store has known several times.
	maxStepGrowth = 8
	// tellEvery is how often a process tells the store about one key at most, if nothing is refused.
	tellEvery = 20 * time.Millisecond
	// staleAnswer is how long after its slot an answer says too little about now to be compared.
	staleAnswer = 10 * time.Second
	// shortestHold and longestHold bound for how long a limit is believed that the upstream said once: two of its windows.
	shortestHold = 10 * time.Second
	longestHold  = 10 * time.Minute
	// paceTolerance is by how much slower than a policy the rest of an upstream's window must be, as a divisor.
	paceTolerance = 10
	// maxWatches bounds the keys that a process watches. What it forgets costs a word to the store that was not needed.
	maxWatches = 1 << 16
)

// watches knows of this process's calls that are on their way, and what it told the store about each key.
type watches struct {
	mu   sync.Mutex
	keys map[store.Key]*watch
}

type watch struct {
	open   int64 // cost of tracked calls that are not answered, those in line included
	bucket int64 // of a window: the latest one that a call was charged to
	done   int64 // cost of tracked calls of that bucket that were answered
	known  int64 // how much of that the store knows

	left   int64 // as told last; −1: never
	step   int64 // how many steps it may move until it is told again
	at     time.Time
	value  int64 // a lower limit, as told last; 0 for none
	valued time.Time
}

// telling is a note that remembers what it is about.
type telling struct {
	key    store.Key
	left   bool
	bucket int64
	known  int64
}

// of returns the watch of a key. The caller holds mu.
func (w *watches) of(k store.Key) *watch {
	if one := w.keys[k]; one != nil {
		return one
	}
	if w.keys == nil {
		w.keys = make(map[store.Key]*watch)
	}
	if len(w.keys) >= maxWatches {
		for k, one := range w.keys {
			if one.open == 0 || len(w.keys) >= 2*maxWatches {
				delete(w.keys, k)
			}
		}
	}
	one := &watch{left: -1, step: 1}
	w.keys[k] = one
	return one
}

// entered counts a tracked call as on its way.
func (w *watches) entered(r *Reservation) {
	if !r.call[0].Tracked || r.watches != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.watches = r.room.watches[:0]
	for i := range r.stack.Limits {
		l := &r.stack.Limits[i]
		one := w.of(l.Key())
		one.open += r.cost(i)
		r.watches = append(r.watches, one)
	}
}

// goes remembers what had been answered when a tracked call went. The caller holds pacer.sleepers.mu.
func (w *watches) goes(r *Reservation) {
	if !r.call[0].Tracked {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.known = r.room.known[:0]
	for i, one := range r.watches {
		known, b := int64(0), r.grant[0].Charges[i].From
		if b > one.bucket {
			one.bucket, one.done, one.known = b, 0, 0
		}
		if one.bucket == b {
			known = one.done
		}
		r.known = append(r.known, known)
	}
}

// left counts a tracked call as no longer on its way, which never was answered.
func (w *watches) left(r *Reservation) { w.leave(r, false) }

func (w *watches) leave(r *Reservation, answered bool) {
	if !r.call[0].Tracked {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, one := range r.watches {
		n := r.cost(i)
		one.open = max(0, one.open-n)
		if answered && one.bucket == r.grant[0].Charges[i].From {
			one.done += n
		}
	}
	r.watches = nil
}

// told notes that the store knows, and how much of it made a difference: if nothing did, it may be told less often.
func (w *watches) told(all []telling, changed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range all {
		one := w.of(all[i].key)
		if all[i].bucket == one.bucket {
			one.known = max(one.known, all[i].known)
		}
		if all[i].left {
			if one.step = min(maxStepGrowth, 2*one.step); changed > 0 {
				one.step = 1
			}
		}
	}
}

// reconcile adds the notes that counts ask for.
func (p *Pacer) reconcile(notes []store.Note, told []telling, a *answer, f *policies.Feedback, meant targets) ([]store.Note, []telling) {
	limit, limited := f.Limit.Value()
	left, counted := f.Left().Value()
	reset := min(f.Reset, p.maxPause)
	if !limited && !counted || a.took() > staleAnswer {
		return notes, told
	}
	p.watches.mu.Lock()
	defer p.watches.mu.Unlock()
	for _, i := range p.fitting(a, f, meant) {
		l := &a.limits[i]
		q := question{policy: p.named(l.Policy).policy, limit: l, index: i, key: l.Key()}
		q.watch = p.watches.of(q.key)
		if limited && f.Window > 0 {
			if n, ok := q.learn(limit, f.Window); ok {
				notes, told = append(notes, n), append(told, telling{key: q.key})
			}
		}
		if counted {
			if n, known, ok := q.remaining(a, f, reset, left); ok {
				notes, told = append(notes, n), append(told, telling{q.key, true, n.Bucket, known})
			}
		}
	}
	return notes, told
}

// fitting returns which of the limits that are meant the counts of a feedback are about. A policy that was named is. Of
// others, the widest whose period is the feedback's window; if it says no window, one that stands alone, until there is
// more: it need not be the limit that the upstream spoke of.
func (p *Pacer) fitting(a *answer, f *policies.Feedback, meant targets) []int {
	if meant.named {
		return meant.limits
	}
	if a.lacking != nil {
		return nil
	}
	if f.Window == 0 {
		if len(a.limits) == 1 && f.Reset > 0 {
			return []int{0}
		}
		return nil
	}
	best, fewest := -1, math.MaxInt
	for i := range a.limits {
		l := p.named(a.limits[i].Policy)
		if _, period := l.policy.Limit(); period == f.Window && len(l.scopes) < fewest {
			best, fewest = i, len(l.scopes)
		}
	}
	if best < 0 {
		return nil
	}
	return []int{best}
}

// question is what one limit makes of the counts of a feedback.
type question struct {
	policy policies.Policy
	limit  *store.Limit
	index  int
	key    store.Key
	watch  *watch
}

// learn makes a note of a limit that is below the policy's, while the upstream says so.
func (q *question) learn(limit int64, window time.Duration) (store.Note, bool) {
	most, period := q.policy.Limit()
	if period != window { // the same pace over another time
		limit = int64(min(float64(limit)*float64(period)/float64(window), float64(policies.MaxLimit)))
	}
	value := int64(0)
	if limit < most {
		spec := q.policy.Lowered(limit).Spec()
		if value = spec.Limit; spec.Algorithm == policies.GCRA {
			value = spec.Interval
		}
	}
	hold := min(max(2*window, shortestHold), longestHold)
	now := time.Now()
	if value == q.watch.value && (value == 0 || now.Sub(q.watch.valued) < hold/2) {
		return store.Note{}, false
	}
	q.watch.value, q.watch.valued = value, now
	return store.Note{Kind: store.NoteLearn, Limit: q.index, Value: value, For: hold}, true
}

// remaining makes a note of what is left, if that is material.
func (q *question) remaining(a *answer, f *policies.Feedback, reset time.Duration, left int64) (store.Note, int64, bool) {
	if left == 0 && reset > 0 {
		if !q.material(left) {
			return store.Note{}, 0, false
		}
		return store.Note{Kind: store.NotePause, Limit: q.index, For: reset}, 0, true
	}
	if q.limit.Spec.Algorithm == policies.GCRA && f.Window > 0 {
		return q.spread(reset, left)
	}
	if !q.material(left) {
		return store.Note{}, 0, false
	}
	n := store.Note{Kind: store.NoteRemaining, Limit: q.index, Remaining: left, For: reset}
	known := int64(0)
	if a.went != nil && q.limit.Spec.Algorithm == policies.Window {
		n.Bucket = a.went.grant[0].Charges[q.index].From
		if k, ok := a.known(q.index); ok {
			known = k
			n.Done = max(0, known-q.watch.known)
		}
	}
	return n, known, true
}

// spread makes a note of a pace that lets what is left last until the upstream's window is over, if the policy's own
// would not.
func (q *question) spread(reset time.Duration, left int64) (store.Note, int64, bool) {
	free := max(1, left-q.watch.open)
	interval := reset.Microseconds() / free
	t := q.limit.Spec.Interval
	if reset == 0 || interval <= t+t/paceTolerance || !q.material(left) {
		return store.Note{}, 0, false
	}
	return store.Note{Kind: store.NoteLearn, Limit: q.index, Value: interval, For: reset}, 0, true
}

// material reports whether the store should be told that so much is left.
func (q *question) material(left int64) bool {
	w, now := q.watch, time.Now()
	most, _ := q.policy.Limit()
	moved := left - w.left
	if moved < 0 {
		moved = -moved
	}
	step := max(1, most/materialStep) * w.step
	if left <= most/nearEnd+w.open {
		step = 1
	}
	if w.left >= 0 && (moved < step || now.Sub(w.at) < tellEvery) {
		return false
	}
	w.left, w.at = left, now
	return true
}
