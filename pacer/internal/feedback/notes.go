package feedback

import (
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

const (
	// materialStep is the part of a limit by which what is left must have moved, as a divisor: half a per cent.
	materialStep = 200
	// nearEnd is when every change counts, as a divisor: the last twentieth of the limit.
	nearEnd = 20
	// maxStepGrowth is up to how many steps a key may move without a note, once the store has known several times.
	maxStepGrowth = 8
	// noteEvery is how often a process sends a note about one key at most, if nothing is refused.
	noteEvery = 20 * time.Millisecond
	// believedFor is for how long it is believed what others must have spent, if the upstream did not say when there is more, and at most
	// for Config.MaxPause. Then one call goes to ask.
	believedFor = 15 * time.Minute
	// staleAnswer is how long after its slot an answer says too little about now to be compared.
	staleAnswer = 10 * time.Second
	// shortestHold and longestHold bound for how long a limit is believed that the upstream reported once: two of its windows.
	shortestHold = 10 * time.Second
	longestHold  = 10 * time.Minute
	// paceTolerance is by how much slower than a policy the rest of an upstream's window must be, as a divisor.
	paceTolerance = 10
)

// Notes are what the store has to know because of some feedback on a call.
type Notes struct {
	// Strays are about the limits that may have been refused without a fault of theirs: then the store says that they make no difference,
	// and the Refusals are not to be sent. None if that cannot be.
	Strays   []store.Note
	Refusals []store.Note // pauses, and adaptive rates that slow down
	Counts   []store.Note // limits, and what is left of them
	Marks    []Mark       // for [Usage.Delivered], when the store has received the Counts
}

// Notes returns the notes of some feedback on a call, received at now. It returns an [*UnboundError] if feedback names a policy that does
// not bind the call.
func (r *Rules) Notes(u *Usage, a *Answer, fs []policies.Feedback, now time.Time) (Notes, error) {
	var few [2]targets
	about := few[:0]
	for i := range fs {
		t, err := r.targets(a, &fs[i])
		if err != nil {
			return Notes{}, err
		}
		about = append(about, t)
	}
	var n Notes
	stray := true
	for i := range fs {
		n.Refusals = r.refusal(n.Refusals, a, &fs[i], about[i])
		if stray && (fs[i].Refused || fs[i].Wait > 0) {
			n.Strays, stray = r.strays(n.Strays, a, &fs[i], about[i])
		}
		if r.counts {
			n.Counts, n.Marks = r.compare(n.Counts, n.Marks, u, a, &fs[i], about[i], now)
		}
	}
	if !stray {
		n.Strays = nil
	}
	return n, nil
}

// refusal adds the notes that a refusal asks for: pauses, and adaptive rates that slow down.
func (r *Rules) refusal(notes []store.Note, a *Answer, f *policies.Feedback, t targets) []store.Note {
	if d := min(f.Wait, r.maxPause); d > 0 {
		if t.all {
			notes = append(notes, store.Note{Kind: store.NotePause, Limit: store.WholeUpstream, For: d})
		} else {
			for _, i := range t.limits {
				notes = append(notes, store.Note{Kind: store.NotePause, Limit: i, For: d})
			}
		}
	}
	if !f.Refused {
		return notes
	}
	for _, i := range t.limits {
		if a.Limits[i].Spec.Adapt == nil {
			continue
		}
		n := store.Note{Kind: store.NoteSlow, Limit: i}
		if a.Grant != nil {
			n.At = a.Grant.At
		}
		notes = append(notes, n)
	}
	return notes
}

// compare adds the notes that counts ask for.
func (r *Rules) compare(notes []store.Note, marks []Mark, u *Usage, a *Answer, f *policies.Feedback, t targets, now time.Time) ([]store.Note, []Mark) {
	limit, limited := f.Limit.Value()
	left, counted := f.Left().Value()
	if !limited && !counted || a.Took > staleAnswer {
		return notes, marks
	}
	for _, i := range r.fitting(a, f, t) {
		l := &a.Limits[i]
		q := question{policy: r.policyOf(l), limit: l, index: i, now: now, longest: r.maxPause}
		key := l.Key()
		u.update(key, func(known record) record {
			if limited && f.Window > 0 {
				if n, after, ok := q.learn(known, limit, f.Window); ok {
					known, notes, marks = after, append(notes, n), append(marks, Mark{key: key})
				}
			}
			if counted {
				if n, after, reached, ok := q.remaining(known, a, f.Window, min(f.Reset, r.maxPause), left); ok {
					known, notes, marks = after, append(notes, n), append(marks, Mark{key, true, n.Bucket, reached})
				}
			}
			return known
		})
	}
	return notes, marks
}

// A question is what one limit makes of the counts of a feedback, at a time. Its methods return the note, if there is to be one, and the
// record after it.
type question struct {
	policy  policies.Policy
	limit   *store.Limit
	index   int
	now     time.Time
	longest time.Duration // the longest that one call may be made to wait for another
}

// learn makes a note of a limit that is below the policy's, while the upstream reports it.
func (q *question) learn(known record, limit int64, window time.Duration) (store.Note, record, bool) {
	value := q.lowered(limit, window)
	hold := min(max(2*window, shortestHold), longestHold)
	if value == known.value && (value == 0 || q.now.Sub(known.valued) < hold/2) {
		return store.Note{}, known, false
	}
	known.value, known.valued = value, q.now
	return store.Note{Kind: store.NoteLearn, Limit: q.index, Value: value, For: hold}, known, true
}

// lowered returns what a policy has to be lowered to for a limit of the upstream: the emission interval of a rate, or the limit of a
// window or of leases; 0 if it is no lower than the policy's. A rate keeps the same pace over another time, however slow. A window
// admits at least one call.
func (q *question) lowered(limit int64, window time.Duration) int64 {
	most, period := q.policy.Limit()
	rate := q.limit.Spec.Algorithm == policies.GCRA
	if period != window && rate {
		interval := (window.Microseconds()-1)/max(1, limit) + 1
		if interval <= q.limit.Spec.Interval {
			return 0
		}
		return min(interval, max(q.longest.Microseconds(), q.limit.Spec.Interval))
	}
	if period != window {
		limit = int64(min(float64(limit)*float64(period)/float64(window), float64(policies.MaxLimit)))
	}
	if limit >= most {
		return 0
	}
	spec := q.policy.Lowered(limit).Spec()
	if rate {
		return spec.Interval
	}
	return spec.Limit
}

// remaining makes a note of what is left, if that is material. It also returns the cost of the calls of the note's bucket that had reached
// the upstream.
func (q *question) remaining(known record, a *Answer, window, reset time.Duration, left int64) (n store.Note, after record, reached int64, ok bool) {
	if left == 0 && reset > 0 {
		after, ok = q.material(known, left)
		return store.Note{Kind: store.NotePause, Limit: q.index, For: reset}, after, 0, ok
	}
	if q.limit.Spec.Algorithm == policies.GCRA && window > 0 {
		n, after, ok = q.spread(known, reset, left)
		return n, after, 0, ok
	}
	if after, ok = q.material(known, left); !ok {
		return store.Note{}, known, 0, false
	}
	n = store.Note{Kind: store.NoteRemaining, Limit: q.index, Remaining: left, For: reset}
	if reset == 0 {
		n.For = -min(believedFor, q.longest)
	}
	if a.Grant != nil && q.limit.Spec.Algorithm == policies.Window {
		n.Bucket = a.Grant.Charges[q.index].From
		if reached, tracked := a.Tracked.reachedBy(a.Call, q.index); tracked {
			n.Done = max(0, reached-known.known)
			return n, after, reached, true
		}
	}
	return n, after, 0, true
}

// spread makes a note of a pace that lets what is left last until the upstream's window is over, if the policy's own
// would not.
func (q *question) spread(known record, reset time.Duration, left int64) (store.Note, record, bool) {
	free := max(1, left-known.open)
	interval := reset.Microseconds() / free
	t := q.limit.Spec.Interval
	if reset == 0 || interval <= t+t/paceTolerance {
		return store.Note{}, known, false
	}
	after, ok := q.material(known, left)
	return store.Note{Kind: store.NoteLearn, Limit: q.index, Value: interval, For: reset}, after, ok
}

// material reports whether the store should know that so much is left.
func (q *question) material(known record, left int64) (record, bool) {
	most, _ := q.policy.Limit()
	moved := left - known.left
	if moved < 0 {
		moved = -moved
	}
	step := max(1, most/materialStep) * known.step
	if left <= most/nearEnd+known.open {
		step = 1
	}
	soon := q.now.Sub(known.at) < noteEvery && (left > 0 || known.left == 0) // that nothing is left is reported at once
	if q.now.Sub(known.at) > believedFor/10 {                                // what is believed is to be confirmed before it is asked for
		step = 0
	}
	if known.left >= 0 && (moved < step || soon) {
		return known, false
	}
	known.left, known.at = left, q.now
	return known, true
}
