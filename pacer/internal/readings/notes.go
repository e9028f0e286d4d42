package readings

import (
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

const (
	// shortestHold and longestHold bound for how long a limit is believed that the upstream reported once: two of its windows.
	shortestHold = 10 * time.Second
	longestHold  = 10 * time.Minute
	// longestStated is the longest time until there is more that an upstream is believed: the longest month.
	longestStated = 31 * 24 * time.Hour
	// nearEnd is when each answer is of interest, as a divisor: the last fifth of a limit.
	nearEnd = 5
	// implausible is how long a wait is that an upstream states beyond that.
	implausible = time.Hour
	// longestGuess bounds when there is more, by a policy, if the upstream does not state it.
	longestGuess = 15 * time.Minute
	// fewLeft is how much is left when each answer is reported at once.
	fewLeft = 8
)

// Notes are what the store has to know because of some feedback on a call.
type Notes struct {
	Limits  []store.Limit // what the notes are about: those of the answer, and allowances that feedback is about and that did not bind the call
	Rates   []store.Note  // adaptive rates that slow down, and lower limits
	Answers []store.Note  // what is left, of each allowance
	Soon    bool          // send the Answers at once
	Near    bool          // a limit is nearly spent, as far as that is known: send them soon
}

// Notes returns the notes of some feedback on a call, received at now. A single refusal binds only the call: see [Rules.Strays]. It
// returns an [*UnboundError] if feedback names a policy that does not bind the call.
func (r *Rules) Notes(m *Memory, a *Answer, fs []policies.Feedback, alone bool, now time.Time) (Notes, error) {
	var few [2]targets
	about, err := r.about(few[:0], a, fs)
	if err != nil {
		return Notes{}, err
	}
	n := Notes{Limits: a.Limits}
	for i := range fs {
		if fs[i].Refused && !alone {
			n.Rates = slower(n.Rates, a, about[i])
		}
		if r.counts {
			r.lower(&n, m, a, &fs[i], about[i], now)
		}
	}
	r.answers(&n, m, a, fs, about, alone, now)
	return n, nil
}

// about appends whom some feedback is about to all.
func (r *Rules) about(all []targets, a *Answer, fs []policies.Feedback) ([]targets, error) {
	for i := range fs {
		t, err := r.targets(a, &fs[i])
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// believed returns for how long a wait is heeded that an upstream states: as stated, but one that cannot be is taken for a guess.
func (r *Rules) believed(d time.Duration) time.Duration {
	if d > max(longestStated, r.maxPause) {
		d = implausible
	}
	return min(d, r.maxPause)
}

// slower adds a refusal's notes about adaptive rates.
func slower(notes []store.Note, a *Answer, t targets) []store.Note {
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

// lower adds a note of a limit that is below its policy's. A limit that fits no policy is a pace beside them, unless what is left of it is
// stated, too.
func (r *Rules) lower(n *Notes, m *Memory, a *Answer, f *policies.Feedback, t targets, now time.Time) {
	limit, limited := f.Limit.Value()
	if !limited || f.Window == 0 {
		return
	}
	about := t.limits
	if !t.named {
		about = r.fitting(a, f, t)
	}
	if _, counted := f.Left().Value(); len(about) == 0 && !counted {
		about = r.allowances(n, m, a, f, t)
	}
	for _, i := range about {
		l, value := &n.Limits[i], r.slowest(limit, f.Window)
		if l.Spec.Algorithm == specs.Allowance {
			m.learn(l.Key(), f, now)
		} else {
			value = r.lowered(l, limit, f.Window)
		}
		hold := min(max(2*f.Window, shortestHold), longestHold)
		if m.isNews(l.Key(), value, now, hold/2) {
			n.Rates = append(n.Rates, store.Note{Kind: store.NoteLearn, Limit: i, Value: value, For: hold})
		}
	}
}

// slowest returns the emission interval of a limit per window, at most that of the longest wait.
func (r *Rules) slowest(limit int64, window time.Duration) int64 {
	return min((window.Microseconds()-1)/max(1, limit)+1, min(r.maxPause, implausible).Microseconds())
}

// lowered returns a limit that the upstream states as a value of the policy's kind: the emission interval of a rate, or the limit of a
// window or of leases; 0 if it is no lower than the policy's. A rate keeps the same pace over another time, however slow. A window admits
// at least one call.
func (r *Rules) lowered(l *store.Limit, limit int64, window time.Duration) int64 {
	policy := r.policyOf(l)
	most, period := policy.Limit()
	rate := l.Spec.Algorithm == specs.GCRA
	if period != window && rate {
		if (window.Microseconds()-1)/max(1, limit)+1 <= l.Spec.Interval {
			return 0
		}
		return max(r.slowest(limit, window), l.Spec.Interval)
	}
	if period != window {
		limit = int64(min(float64(limit)*float64(period)/float64(window), float64(specs.MaxLimit)))
	}
	if limit >= most {
		return 0
	}
	spec := policy.Lowered(limit).Spec()
	if rate {
		return spec.Interval
	}
	return spec.Limit
}

// answers adds a note about each allowance that binds the call, and about those that feedback is about.
func (r *Rules) answers(n *Notes, m *Memory, a *Answer, fs []policies.Feedback, about []targets, alone bool, now time.Time) {
	said, refused := r.said(n, m, a, fs, about, alone, now)
	n.Soon = n.Soon || refused || a.Grant == nil
	if a.Grant != nil && !a.Again && !refused {
		m.answered(a.Grant.At, a.Cost)
	}
	for j := range n.Limits {
		one, found := said[j]
		if n.Limits[j].Spec.Algorithm != specs.Allowance || !found && j < len(a.Limits) && (a.Again || !a.charged(j) && a.Blind == 0) {
			continue
		}
		if !found {
			one = store.Note{Kind: store.NoteAnswer, Remaining: -1, Refused: refused}
		}
		one.Limit, one.Cost = j, a.Blind
		if a.Grant != nil {
			one.At, one.Local = a.Grant.At, a.Grant.Local
		}
		switch {
		case a.charged(j):
			if c := &a.Grant.Charges[j]; !a.Again {
				one.Cost = c.To
			}
		case m.isFirst(n.Limits[j].Key()): // the first reading reports to the store what is on its way
			one.Value, n.Soon = a.Flying, true
			n.admitted(j, m, a, one.Teaches)
		case a.Grant != nil && !a.Again: // the call was admitted before that
			one.Cost = a.Cost
		}
		n.Answers = append(n.Answers, one)
	}
}

// admitted adds, to the first refusal that teaches the pace of an allowance, the calls that were admitted before it, which the store does
// not know.
func (n *Notes) admitted(j int, m *Memory, a *Answer, teaches bool) {
	if teaches && a.Grant != nil && n.Limits[j].Scope == "" {
		before := m.answered(a.Grant.At, 0)
		n.Answers = append(n.Answers, store.Note{Kind: store.NoteAnswer, Limit: j, At: before.first, Cost: before.cost, Remaining: -1})
	}
}

// said returns feedback's statements of what is left, by the index of the allowances that it is about, and whether the call was refused.
func (r *Rules) said(
	n *Notes, m *Memory, a *Answer, fs []policies.Feedback, about []targets, alone bool, now time.Time,
) (said map[int]store.Note, refused bool) {
	refusal, counts, waits := policies.Feedback{}, 0, false // profiles may report a refusal beside what is left
	for i := range fs {
		waits = waits || fs[i].Wait > 0
		if f := &fs[i]; f.Refused {
			refusal.Refused = true
			shorten(&refusal.Wait, &refusal.Source, f.Wait, f.Source)
		}
		if _, counted := fs[i].Left().Value(); counted {
			counts++
		}
	}
	if counts == 0 && !waits && (alone || !refusal.Refused) {
		return nil, refusal.Refused
	}
	said = make(map[int]store.Note)
	explained := false
	for i := 0; i < len(fs) && r.counts; i++ {
		explained = r.reading(said, n, m, a, &fs[i], about[i], &refusal, counts == 1, now) || explained
	}
	for i := 0; i < len(fs) && !alone; i++ {
		left, counted := fs[i].Left().Value()
		if !explained || about[i].named && (!counted || left > 0) {
			r.wait(said, n, m, a, &fs[i], about[i], now)
		}
	}
	return said, refusal.Refused
}

// reading adds one feedback's statements of what is left, by the index of the allowances that it is about, the least of each. Allowances
// that do not bind the call are added to the limits of the notes. It reports whether nothing is left of the limits that refused the call.
func (r *Rules) reading(
	said map[int]store.Note, n *Notes, m *Memory, a *Answer, f *policies.Feedback, t targets, refusal *policies.Feedback, only bool, now time.Time,
) (nothing bool) {
	left, counted := f.Left().Value()
	limit, limited := f.Limit.Value()
	switch {
	case !counted, limited && limit == 0 && left == 0 && !refusal.Refused: // no information
		return false
	case left > 0 && refusal.Refused && only: // another limit refused
		return false
	}
	n.Soon = n.Soon || left <= fewLeft
	n.Near = n.Near || !limited || left <= limit/nearEnd
	one := readingOf(f, left, refusal)
	one.For, one.Teaches = min(one.For, r.maxPause), one.Refused && !r.isShort(a)
	for _, j := range r.allowances(n, m, a, f, t) {
		m.learn(n.Limits[j].Key(), f, now)
		one := one
		switch {
		case one.For == 0 && left == 0:
			one.For, one.Guessed, one.Source = r.release(&n.Limits[j], now), true, ""
		case one.For == time.Second && !one.Refused && r.specOf(&n.Limits[j]).Algorithm == specs.GCRA:
			one.For = Apart // of a rate, some comes back all the time, and a header in seconds cannot state less than a second
		}
		if before, found := said[j]; !found || left < before.Remaining {
			said[j] = one
		}
		nothing = one.Refused
	}
	return nothing
}

// wait adds that nothing is left for the wait that one feedback requests: of the limits that it names, or of all that it may be about. The
// store guesses the wait of a refusal that states none.
func (r *Rules) wait(said map[int]store.Note, n *Notes, m *Memory, a *Answer, f *policies.Feedback, t targets, now time.Time) {
	d, adapts := r.believed(f.Wait), slices.ContainsFunc(a.Limits, func(l store.Limit) bool { return l.Spec.Adapt != nil })
	if d <= 0 && (!f.Refused || adapts) {
		return
	}
	one := store.Pause(0, max(0, d))
	if one.Guessed, one.Teaches = d <= 0, f.Refused && !adapts && !r.isShort(a); d > 0 {
		one.Source = f.Source
	}
	pause := func(of store.Limit) {
		j := n.index(AllowanceOf(of), "")
		if f.Refused && d > 0 {
			m.learn(n.Limits[j].Key(), &policies.Feedback{Source: f.Source}, now)
		}
		if before, found := said[j]; !found || before.Remaining > 0 || before.Empties() < d {
			said[j] = one
		}
	}
	if t.all {
		pause(store.Limit{})
		return
	}
	for _, i := range t.limits {
		if a.Limits[i].Spec.Queue != specs.QueueOfLane { // the rate is there, too
			pause(a.Limits[i])
		}
	}
}

// shorten makes a time the shorter one of two (0 is none), and keeps where that was stated.
func shorten(d *time.Duration, source *string, other time.Duration, by string) {
	if other > 0 && (*d == 0 || other < *d) {
		*d, *source = other, by
	}
}

// readingOf returns the note that so much is left, by feedback beside a refusal, if there is one.
func readingOf(f *policies.Feedback, left int64, refusal *policies.Feedback) store.Note {
	one := store.Note{Kind: store.NoteAnswer, Remaining: min(left, specs.MaxLimit), Refused: refusal.Refused && left == 0}
	if f.Reset <= longestStated {
		shorten(&one.For, &one.Source, f.Reset, f.Source)
	}
	if one.Refused {
		shorten(&one.For, &one.Source, refusal.Wait, refusal.Source)
	}
	return one
}

// charged reports whether the call of an answer was charged to a limit.
func (a *Answer) charged(i int) bool {
	return a.Grant != nil && i < len(a.Grant.Charges) && a.Grant.Charges[i].To > 0
}

// release returns when the policy of an allowance has more, as far as that is known without its account; 0 if it is not.
func (r *Rules) release(l *store.Limit, now time.Time) time.Duration {
	spec, at := r.specOf(l), now.UnixMicro()
	if spec.Algorithm == 0 {
		return 0
	}
	next := at + spec.Interval
	switch {
	case spec.Calendar != nil:
		for _, b := range spec.Calendar.Bounds(at, at) {
			if b > at {
				next = b
				break
			}
		}
	case spec.Algorithm == specs.Window && spec.Buckets == 0:
		next -= at % spec.Interval
	}
	return min(max(time.Duration(next-at)*time.Microsecond, time.Second), longestGuess)
}

// specOf returns the policy of an allowance; the zero Spec if no policy is about it.
func (r *Rules) specOf(l *store.Limit) specs.Spec {
	of := store.Limit{Policy: PolicyOf(l.Policy), Scope: l.Scope}
	if _, known := r.policies[of.Policy]; !known {
		return specs.Spec{}
	}
	return r.policyOf(&of).Spec()
}
