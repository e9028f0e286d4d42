package pacer

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/headway-go/headway/policies"
)

// alone paces this process without the fleet's store, at its share of every limit: see [policies.Policy.Share]. It keeps
// accounts of its own, which begin behind what the store is known to have granted, and remembers what it spends until the
// store has been told.
type alone struct {
	policies map[string]policies.Policy // by name

	mu     sync.Mutex
	store  *MemoryStore
	spent  map[pauseKey]*trace
	pauses map[pauseKey]pausedLimit
	owed   []debt
}

// pausedLimit is a pause that the fleet has not heard of.
type pausedLimit struct {
	limit Limit // zero for the whole upstream
	until Instant
}

// A debt is what could not be said to the store: grants to give back, or notes.
type debt struct {
	limits []Limit
	grants []Grant
	notes  []Note
}

// maxOwed bounds what is kept for the store while it is out of reach. What is dropped was charged and not used.
const maxOwed = 1 << 12

// share returns a stack with the limits that hold for this process, one of n.
func (a *alone) share(stack *Stack, n int) Stack {
	own := Stack{Upstream: stack.Upstream, Limits: make([]Limit, len(stack.Limits))}
	for i := range stack.Limits {
		l := &own.Limits[i]
		*l = stack.Limits[i]
		l.Spec = a.policies[l.Policy].Share(n)
	}
	return own
}

// reserve grants slots, n being how many processes there are and outage the number of this outage.
func (a *alone) reserve(ctx context.Context, known *recall, stack *Stack, calls []Call, grants []Grant, n, outage int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.share(stack, n)
	if err := a.begin(ctx, known, stack, &own, n, outage); err != nil {
		return err
	}
	if err := a.store.Reserve(ctx, own, calls, grants); err != nil {
		return err
	}
	for i := range grants {
		g := &grants[i]
		g.alone = true
		for j, c := range g.Charges {
			t := a.spentOn(&stack.Limits[j])
			if stack.Limits[j].Spec.Algorithm == policies.Window {
				t.bucket(c.From).n += max(c.To, -c.To)
			} else {
				t.each = own.Limits[j].Spec.Interval
				t.take(c.From, c.To, int64(g.Now))
			}
		}
	}
	return nil
}

func (a *alone) spentOn(l *Limit) *trace {
	k := pauseKey{l.Policy, l.Scope}
	t := a.spent[k]
	if t == nil {
		if a.spent == nil {
			a.spent = make(map[pauseKey]*trace)
		}
		t = &trace{limit: *l}
		a.spent[k] = t
	}
	return t
}

// begin tells the local accounts of a stack, once in an outage, what the store was known to hold.
func (a *alone) begin(ctx context.Context, known *recall, stack, own *Stack, n, outage int) error {
	now := Instant(a.store.clock())
	var notes []Note
	known.mu.Lock()
	if t := known.keys[pauseKey{}]; t != nil && t.seeded != outage {
		t.seeded = outage
		notes = append(notes, t.notes(WholeUpstream, now)...)
	}
	for i := range stack.Limits {
		if t := known.of(&stack.Limits[i], int64(now)); t.seeded != outage {
			t.seeded = outage
			limit, _ := a.policies[stack.Limits[i].Policy].Limit()
			notes = append(notes, startAlone(t, i, own.Limits[i].Spec, int64(n), limit < int64(n), now)...)
		}
	}
	known.mu.Unlock()
	if len(notes) == 0 {
		return nil
	}
	_, _, err := a.store.Report(ctx, *own, notes)
	return err
}

// cancel gives local grants back. It returns notes for the store about those that it has been told of.
func (a *alone) cancel(ctx context.Context, stack *Stack, grants []Grant) ([]Note, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var notes []Note
	for i := range grants {
		for j, c := range grants[i].Charges {
			t, n := a.spentOn(&stack.Limits[j]), max(c.To, -c.To)
			switch {
			case stack.Limits[j].Spec.Algorithm == policies.GCRA:
				t.free(c.From, c.To)
			case t.bucket(c.From).n >= n:
				t.bucket(c.From).n -= n
			default:
				notes = append(notes, Note{Kind: NoteSettle, Limit: j, Charge: Charge{From: c.From}, Cost: n})
			}
		}
	}
	own := *stack // giving back does not look at the limits' numbers
	return notes, a.store.Cancel(ctx, own, grants)
}

// report heeds notes for this process alone. What concerns the fleet as well, it keeps for the store.
func (a *alone) report(ctx context.Context, stack *Stack, notes []Note, n int) (Instant, int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.share(stack, n)
	now := Instant(a.store.clock())
	var mine, later []Note
	for i := range notes {
		note := notes[i]
		switch note.Kind {
		case NotePause:
			k := pausedLimit{until: now + Instant(note.For.Microseconds())}
			if note.Limit >= 0 {
				k.limit = stack.Limits[note.Limit]
			}
			if a.pauses == nil {
				a.pauses = make(map[pauseKey]pausedLimit)
			}
			if key := (pauseKey{k.limit.Policy, k.limit.Scope}); k.until > a.pauses[key].until {
				a.pauses[key] = k
			}
		case NoteResume, NoteReset:
			later = append(later, note)
		case NoteLearn:
			if spec := stack.Limits[note.Limit].Spec; spec.Algorithm == policies.GCRA {
				note.Value = min(note.Value*int64(n), policies.MaxPeriod.Microseconds())
			} else if note.Value > 0 {
				note.Value = max(1, note.Value/int64(n))
			}
		case NoteRemaining:
			note.Remaining /= int64(n)
		case NoteSettle:
			if !note.alone {
				later = append(later, note)
				continue
			}
		case NoteSlow, NoteClaim:
		}
		mine = append(mine, note)
	}
	if len(later) > 0 {
		a.owe(debt{limits: stack.Limits, notes: later})
	}
	return a.store.Report(ctx, own, mine)
}

// owe keeps something for the store. The caller holds mu.
func (a *alone) owe(d debt) {
	if len(a.owed) < maxOwed {
		a.owed = append(a.owed, d)
	}
}

// bill is what a process spent alone, and what else it has to say to the store.
type bill struct {
	spent  map[pauseKey]*trace
	pauses map[pauseKey]pausedLimit
	owed   []debt
}

// take takes the bill. The caller either pays it or puts it back.
func (a *alone) take() bill {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := bill{a.spent, a.pauses, a.owed}
	a.spent, a.pauses, a.owed = nil, nil, nil
	return b
}

// put puts back what was not paid.
func (a *alone) put(b bill) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range b.spent {
		into := a.spentOn(&t.limit)
		into.each = max(into.each, t.each)
		for _, s := range t.spans {
			into.take(s.from, s.to, 0)
		}
		for _, h := range t.counts {
			into.bucket(h.bucket).n += h.n
		}
	}
	for k, p := range b.pauses {
		if a.pauses == nil {
			a.pauses = make(map[pauseKey]pausedLimit)
		}
		if p.until > a.pauses[k].until {
			a.pauses[k] = p
		}
	}
	a.owed = append(b.owed, a.owed...)
}

func (b *bill) empty() bool { return len(b.spent)+len(b.pauses)+len(b.owed) == 0 }

// due returns what of a trace of spent slots the store is to charge: of a window what each bucket got, of a rate as many
// calls as still have an effect.
func (t *trace) due(now int64) []Note {
	var notes []Note
	for _, h := range t.counts {
		if h.n > 0 {
			notes = append(notes, Note{Kind: NoteSettle, Charge: Charge{From: h.bucket}, Actual: h.n})
		}
	}
	if left := t.length(now); left > 0 {
		notes = append(notes, Note{Kind: NoteSettle, Actual: (left + t.each - 1) / t.each})
	}
	return notes
}

// startAlone returns what a local account is to be told of what the store was known to hold, n being how many processes
// share it. A line that the fleet had goes on: everybody begins behind it, and not at the same instant.
func startAlone(t *trace, index int, own policies.Spec, n int64, tight bool, now Instant) []Note {
	var notes []Note
	at := int64(now)
	if own.Algorithm == policies.GCRA {
		front := at
		var later []span
		for _, s := range t.spans {
			if s.from <= front {
				front = max(front, s.to)
			} else {
				later = append(later, s)
			}
		}
		if front > at || tight {
			front += rand.Int64N(own.Interval/n*(n-1) + 1)
		}
		for _, s := range append([]span{{at, front}}, later...) {
			notes = append(notes, Note{Kind: NoteClaim, Limit: index, Charge: Charge{From: s.from, To: s.to}})
		}
	}
	for _, h := range t.counts {
		notes = append(notes, Note{Kind: NoteClaim, Limit: index, Charge: Charge{From: h.bucket, To: (h.n + n - 1) / n}})
	}
	if t.paused > now {
		notes = append(notes, Note{Kind: NotePause, Limit: index, For: t.paused.Sub(now)})
	}
	return notes
}
