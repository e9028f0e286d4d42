package charges

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A Bill is what this process owes the store, and the local slots that will be on it when they have come.
type Bill struct {
	waits   func(store.Instant) bool
	firstID int64 // of the permits that ReserveShares reserves

	mu      sync.Mutex
	grants  []*localGrant           // granted, and not known to have gone
	folded  int                     // how many there were when those that had gone were last looked for
	spent   map[store.Key]*spending // since the last debts were made
	debts   []*Debt
	permits map[permit]store.Limit // that were given back since, and those that ReserveShares has reserved
	returns []*Debt                // of permits
	dropped int                    // slots and permits that the store will not receive
}

// A permit is that of a call.
type permit struct {
	limit store.Key
	id    int64
}

// NewBill returns an empty bill. waits returns whether calls do not use a slot yet although it has come.
func NewBill(waits func(store.Instant) bool) *Bill {
	return &Bill{waits: waits, firstID: store.NewID()}
}

// A localGrant is a slot that was granted locally.
type localGrant struct {
	limits  []store.Limit // as the store knows them
	shares  []store.Limit // as the local accounts do, which were charged
	charges []store.Charge
	at      store.Instant
	over    atomic.Bool // cancelled, or gone
}

// localGrantOf returns what is known of a grant that is local.
func localGrantOf(g *store.Grant) *localGrant { t, _ := g.Receipt.(*localGrant); return t }

// A Debt is a report, with its operation if the store may have received it. One without notes is paid.
type Debt struct {
	readings.Report
	Once *store.Once

	at store.Instant // when it was made; 0 if it is sent at once
}

// Debts returns debts that were made at an instant; 0 if they are sent at once.
func Debts(all []readings.Report, at store.Instant) (made []*Debt) {
	for _, m := range all {
		made = append(made, &Debt{Report: m, at: at})
	}
	return made
}

// Part returns what of a debt is about one of its limits, by its index, and the notes about those after that.
func (d *Debt) Part(limit int) (part *Debt, rest []store.Note) {
	part = &Debt{Report: readings.Report{Limits: d.Limits[limit : limit+1]}, at: d.at}
	for _, n := range d.Notes {
		switch {
		case n.Limit == limit:
			n.Limit = 0
			part.Notes = append(part.Notes, n)
		case n.Limit > limit:
			rest = append(rest, n)
		}
	}
	return part, rest
}

// StillDue returns the notes of a debt, without the calls of rates and the pauses that have no effect any more.
func (d *Debt) StillDue(now store.Instant) []store.Note {
	if d.at == 0 {
		return d.Notes
	}
	notes := slices.Clone(d.Notes) // an earlier request may still read them
	for i := range notes {
		switch n := &notes[i]; {
		case n.Kind == store.NoteSettle && n.Value > 0:
			n.Actual = max(0, n.Actual-int64(now-d.at)/n.Value)
		case n.Kind == store.NoteAnswer:
			n.For -= now.Sub(d.at)
		}
	}
	return slices.DeleteFunc(notes, func(n store.Note) bool { return n.Kind == store.NoteAnswer && n.For <= 0 })
}

// IsLocal reports whether a grant is local, and whether it is over: cancelled, or gone.
func IsLocal(g *store.Grant) (is, over bool) {
	t := localGrantOf(g)
	return t != nil, t != nil && t.over.Load()
}

// maxOwed bounds how many permits are kept that were given back while the store was out of reach.
const maxOwed = 1 << 15

// granted adds a local slot.
func (b *Bill) granted(t *localGrant, now store.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.grants = append(b.grants, t); len(b.grants) > 2*b.folded+1024 {
		b.fold(now)
	}
}

// cancelled takes a local slot off the bill, and returns what the store knows of it, if it does: windows are charged there with those that
// have gone. The intervals of rates are past, or nearly so.
func (b *Bill) cancelled(t *localGrant) []store.Charge {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.over.CompareAndSwap(false, true) {
		return nil
	}
	theirs := make([]store.Charge, len(t.charges))
	for i, c := range t.charges {
		if l := &t.limits[i]; l.Spec.Algorithm == specs.Window {
			h := b.of(l).counts.at(c.From)
			mine := min(h.n, c.To)
			h.n -= mine
			theirs[i] = store.Charge{From: c.From, To: c.To - mine}
		}
	}
	return theirs
}

// fold counts the slots that have come as spent. The caller holds mu.
func (b *Bill) fold(now store.Instant) {
	b.grants = slices.DeleteFunc(b.grants, func(t *localGrant) bool {
		if t.over.Load() || t.at > now || b.waits(t.at) {
			return t.over.Load()
		}
		t.over.Store(true)
		for i, c := range t.charges {
			if recorded(c, &t.limits[i]) {
				b.of(&t.limits[i]).add(&t.shares[i].Spec, c, int64(now))
			}
		}
		return true
	})
	b.folded = len(b.grants)
}

// of returns what was spent of a limit. The caller holds mu.
func (b *Bill) of(l *store.Limit) *spending {
	k := l.Key()
	s := b.spent[k]
	if s == nil {
		if b.spent == nil {
			b.spent = make(map[store.Key]*spending)
		}
		s = &spending{limit: *l}
		b.spent[k] = s
	}
	return s
}

// noted adds notes that the store could not receive, or may have applied if they were on their way as an operation: pauses, the excess of real
// costs over charges, and permits that are given back.
func (b *Bill) noted(stack *store.Stack, notes []store.Note, now store.Instant, once *store.Once) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sent []store.Note
	for i := range notes {
		n := &notes[i]
		l := &stack.Limits[n.Limit]
		switch d := n.Empties(); {
		case n.Kind == store.NoteRelease:
			b.returned(l, n.Value)
		case n.Kind == store.NoteSettle && !n.Local && n.Actual <= n.Cost:
			b.dropped++
		case Adds(n) && once != nil:
			sent = append(sent, *n)
		case n.Kind == store.NoteSettle && !n.Local:
			b.of(l).addMore(n.Charge.From, n.Actual-n.Cost)
		case d > 0:
			s := b.of(l)
			s.paused = max(s.paused, now.Add(d))
		}
	}
	if once != nil {
		b.debts = append(b.debts, &Debt{readings.Report{Limits: slices.Clone(stack.Limits), Notes: sent}, once, now})
	}
}

// Keep adds a debt.
func (b *Bill) Keep(d *Debt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.debts = append(b.debts, d)
}

// returned keeps the return of a permit. Beyond maxOwed it is dropped and counted: the lease ends by itself. The caller holds mu.
func (b *Bill) returned(l *store.Limit, id int64) {
	if len(b.permits) >= maxOwed {
		b.dropped++
		return
	}
	if b.permits == nil {
		b.permits = make(map[permit]store.Limit)
	}
	b.permits[permit{l.Key(), id}] = *l
}

// Lost counts slots that are not given back to the store, and keeps their permits.
func (b *Bill) Lost(stack *store.Stack, grants []store.Grant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped += len(grants)
	for i := range grants {
		for j, c := range grants[i].Charges {
			if stack.Limits[j].Spec.Algorithm == specs.Concurrency && c.To > 0 {
				b.returned(&stack.Limits[j], c.From)
			}
		}
	}
}

// DroppedSince returns how many slots and notes were dropped since its last call.
func (b *Bill) DroppedSince() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, b.dropped = b.dropped, 0
	return n
}

// Due returns what the store has to receive now: charges, and permits that are given back. They stay on the bill until they have no notes.
func (b *Bill) Due(now store.Instant) (charged, returned []*Debt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fold(now)
	var due, permits readings.Reports
	for k, s := range b.spent {
		due.Add(&s.limit, s.due(int64(now))...)
		if *s = (spending{limit: s.limit, each: s.each, from: s.to, to: s.to}); s.to <= int64(now) {
			delete(b.spent, k)
		}
	}
	for p, l := range b.permits {
		permits.Add(&l, store.Note{Kind: store.NoteRelease, Value: p.id})
	}
	clear(b.permits)
	isPaid := func(d *Debt) bool { return len(d.Notes) == 0 }
	b.debts = append(slices.DeleteFunc(b.debts, isPaid), Debts(due.All, now)...)
	b.returns = append(slices.DeleteFunc(b.returns, isPaid), Debts(permits.All, now)...)
	return slices.Clone(b.debts), slices.Clone(b.returns)
}
