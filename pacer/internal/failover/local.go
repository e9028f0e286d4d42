package failover

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// A localStore paces this process without the shared store, at its share of every limit: see [policies.Policy.Share]. It keeps
// accounts of its own, which begin behind what the store is known to have granted, and remembers what it granted until the
// store has received it.
type localStore struct {
	policy func(*store.Limit) policies.Policy
	waits  func(store.Instant) bool // whether calls do not use that slot yet

	mu        sync.Mutex
	store     *memstore.Store
	permits   func() []readings.Report // which calls hold permits
	permitsIn int                      // the absence for which the local accounts know of those
	firstID   int64                    // of the permits that reserveShares reserves
	reserved  map[store.Key]int64      // how many of them the process owes the store
	covered   map[store.Key]bool       // the limits whose shares are reserved; nil unless the process is returning
	grants    []*localGrant            // granted, and not known to have gone
	folded    int                      // how many tickets there were when those that had gone were last looked for
	spent     map[store.Key]*record    // of what has gone
	owed      []debt
	owing     int // notes of those
	dropped   int // slots and notes that the store will not receive
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

// A debt is notes that the store may not have received: permits that are given back, or a report of a number, which charges something.
type debt struct {
	limits []store.Limit
	notes  []store.Note
	number int64 // 0: the notes may be heeded twice
}

// maxOwed bounds how many notes are kept for the store while it is out of reach.
const maxOwed = 1 << 15

// An absence is a time without the store.
type absence struct {
	number    int
	processes int           // how many there are
	rank      int           // how many of them came before this one
	counted   bool          // all others know that, too: see standing
	since     store.Instant // when the first request that failed began
	found     store.Instant // when it failed
	over      chan struct{} // not nil if this process has no share: see standing. Closed when calls need not wait for that any longer
}

// share returns a stack with the limits that hold for this process.
//
// A rate is strict if it has fewer calls in a burst than there are processes. Each process starts its calls in cells of its own: every n-th
// emission interval of the fleet. So no two processes start a call in the same cell, however idle they are. Two such rates may have no slot
// in common, so only the first of a stack is bound to its cells. A process that the others may not have counted has no rank of its own, and
// so no cells.
func (a *localStore) share(stack *store.Stack, away absence) store.Stack {
	own := store.Stack{Upstream: stack.Upstream, Limits: make([]store.Limit, len(stack.Limits))}
	mayTurn := away.counted
	for i := range stack.Limits {
		l := &own.Limits[i]
		if *l = stack.Limits[i]; l.Spec.Algorithm == specs.Allowance {
			continue // readings are divided
		}
		l.Spec = a.policy(l).Share(away.processes)
		if n := int64(away.processes); mayTurn && l.Spec.Algorithm == specs.GCRA && stack.Limits[i].Spec.Limit < n {
			l.Spec.Phase, mayTurn = cmp.Or(int64(away.rank)*(l.Spec.Interval/n), l.Spec.Interval), false
		}
		if l.Spec.Algorithm == specs.Concurrency && away.counted && int64(away.rank) < stack.Limits[i].Spec.Limit%int64(max(1, away.processes)) {
			l.Spec.Limit++ // permits that cannot be divided go to the processes that came first
		}
	}
	return own
}

// reserve grants slots. If the process is about to return to its store, which would not know of the calls, it returns the limit that they
// have to wait for, or else BindsNothing.
func (a *localStore) reserve(
	ctx context.Context, known *ledger, stack *store.Stack, calls []store.Call, grants []store.Grant, away absence,
) (waitsFor int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range stack.Limits {
		if l := &stack.Limits[i]; a.covered != nil && l.Spec.Algorithm == specs.Concurrency && !a.covered[l.Key()] {
			return i, nil
		}
	}
	own := a.share(stack, away)
	if err := a.begin(ctx, known, stack, &own, away); err != nil {
		return store.BindsNothing, err
	}
	limits := slices.Clone(stack.Limits) // the caller's may be used for something else
	for i := range grants {
		if err := a.store.Reserve(ctx, own, calls[i:i+1], grants[i:i+1]); err != nil {
			return store.BindsNothing, err
		}
		g := &grants[i]
		if !g.OK {
			continue
		}
		if more := beyond(&own, g); len(more) > 0 {
			if _, _, err := a.store.Report(ctx, own, more); err != nil {
				return store.BindsNothing, err
			}
		}
		t := &localGrant{limits: limits, shares: own.Limits, charges: slices.Clone(g.Charges), at: g.At}
		g.Local, g.Receipt = true, t
		a.grants = append(a.grants, t)
	}
	if len(a.grants) > 2*a.folded+1024 {
		a.fold(a.store.Now())
	}
	return store.BindsNothing, nil
}

// beyond returns what a call takes of the windows after its own if it costs more than the share: an empty window admits it all the same.
func beyond(own *store.Stack, g *store.Grant) (notes []store.Note) {
	for i, c := range g.Charges {
		s := &own.Limits[i].Spec
		if s.Algorithm != specs.Window || s.Calendar != nil {
			continue
		}
		period := s.Interval * (s.Buckets + 1)
		for at, left := c.From+period, c.To-s.Limit; left > 0; at, left = at+period, left-s.Limit {
			notes = append(notes, store.Note{Kind: store.NoteClaim, Limit: i, Charge: store.Charge{From: at, To: min(left, s.Limit)}})
		}
	}
	return notes
}

// begin charges the local accounts of a stack, once in an absence, with what the store was known to hold.
func (a *localStore) begin(ctx context.Context, known *ledger, stack, own *store.Stack, away absence) error {
	now := a.store.Now()
	var initial []store.Note
	known.mu.Lock()
	for i := range stack.Limits {
		if t := known.of(&stack.Limits[i], int64(now)); t.seeded != away.number {
			t.seeded = away.number
			limit, _ := a.policy(&stack.Limits[i]).Limit()
			initial = append(initial, t.startLocal(i, own.Limits[i].Spec, away, limit, int64(now))...)
			if share := own.Limits[i].Spec; share.Algorithm == specs.Concurrency {
				for range min(t.others(share.Limit, int64(now)), maxForeign) {
					initial = append(initial, store.Note{Kind: store.NoteRenew, Limit: i, Value: newID(), At: now})
				}
			}
		}
	}
	known.mu.Unlock()
	if len(initial) > 0 {
		if _, _, err := a.store.Report(ctx, *own, initial); err != nil {
			return err
		}
	}
	if a.permitsIn == away.number {
		return nil
	}
	a.permitsIn = away.number
	for _, m := range a.permits() {
		own := a.share(&store.Stack{Upstream: stack.Upstream, Limits: m.Limits}, away)
		if _, _, err := a.store.Report(ctx, own, m.Notes); err != nil {
			return err
		}
	}
	return nil
}

// newID returns an ID for a call that is not of this process, or none.
func newID() int64 { return 1e14 + rand.Int64N(9e14) }

// reserveShares returns reports that reserve, of each limit in use, what calls of this process may begin to use until the store decides
// again, at the barrier: from then on others get slots and permits, perhaps before this process has reported what it spent, and those that
// have not lost the store get them before. Of a rate, these are the cells of this process. It owes the store the return of the permits.
// Running are the calls that the store learns of with them. Calls that need more than maxReserved wait until the process is back.
func (a *localStore) reserveShares(known *ledger, running []readings.Report, away absence, barrier int64) []readings.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.covered = make(map[store.Key]bool)
	var reserve, release readings.Reports
	a.fold(a.store.Now())
	now, held, room := int64(a.store.Now()), permitsOf(running), int64(maxReserved)
	known.mu.Lock()
	defer known.mu.Unlock()
	for k, t := range known.keys {
		if t.seeded != away.number {
			continue
		}
		own := a.share(&store.Stack{Limits: []store.Limit{t.limit}}, away).Limits[0].Spec
		if n := int64(away.processes); own.Algorithm == specs.GCRA && n > 1 {
			cell, spent := now-(now-int64(away.rank)*(own.Interval/n))%own.Interval, a.spent[k]
			if spent == nil || spent.tail <= cell { // no call has started in it
				cell += own.Interval
			}
			for ; cell < barrier && room > 0; cell, room = cell+own.Interval, room-1 {
				reserve.Add(&t.limit, store.Note{Kind: store.NoteClaim, Charge: store.Charge{From: cell, To: cell + t.limit.Spec.Interval}})
			}
		}
		if own.Algorithm != specs.Concurrency {
			continue
		}
		n := own.Limit - held[k]
		if n > room {
			continue
		}
		room -= max(0, n)
		a.covered[k] = true
		for i := range n {
			reserve.Add(&t.limit, store.Note{Kind: store.NoteRenew, Value: a.firstID + i, At: store.Instant(now)})
			if i >= a.reserved[k] {
				release.Add(&t.limit, store.Note{Kind: store.NoteRelease, Value: a.firstID + i})
				a.reserved[k] = i + 1
			}
		}
	}
	for _, m := range release.All {
		a.owe(debt{limits: m.Limits, notes: m.Notes})
	}
	return reserve.All
}

// returned ends what reserveShares began: the process is back, or has failed to come back.
func (a *localStore) returned() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.covered = nil
}

// Bounds of the notes about single permits to accounts and to the store.
const (
	maxForeign  = 4096 // of others in a share: no share has more that it would miss
	maxReserved = 4096 // of all shares while it returns
)

// permitsOf returns how many permits of each limit calls hold.
func permitsOf(all []readings.Report) map[store.Key]int64 {
	held := make(map[store.Key]int64)
	for _, m := range all {
		for i := range m.Notes {
			if note := &m.Notes[i]; note.Kind == store.NoteRenew {
				held[m.Limits[note.Limit].Key()]++
			}
		}
	}
	return held
}

// cancel gives local grants back to the accounts that they were charged to, which are of shares. It returns what the store knows of them: windows
// are charged there with those that have gone.
func (a *localStore) cancel(ctx context.Context, upstream string, grants []store.Grant) (known []store.Batch, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range grants {
		t := localGrantOf(&grants[i])
		if err := a.store.Cancel(ctx, store.Stack{Upstream: upstream, Limits: t.shares}, []store.Grant{{Charges: t.charges}}); err != nil {
			return known, err
		}
		if t.over.CompareAndSwap(false, true) { // nobody knows of it
			continue
		}
		theirs := make([]store.Charge, len(t.charges))
		for j, c := range t.charges {
			if l := &t.limits[j]; l.Spec.Algorithm == specs.Window { // the intervals of rates are past, or so nearly
				h := a.spentOn(l).bucket(c.From)
				mine := min(h.n, c.To)
				h.n -= mine
				theirs[j] = store.Charge{From: c.From, To: c.To - mine}
			}
		}
		known = append(known, store.Batch{Stack: store.Stack{Upstream: upstream, Limits: t.limits}, Grants: []store.Grant{{OK: true, Charges: theirs}}})
	}
	return known, nil
}

// fold counts the tickets that have gone as spent.
func (a *localStore) fold(now store.Instant) {
	var kept []*localGrant
	for _, t := range a.grants {
		switch {
		case t.over.Load():
		case t.at > now || a.waits(t.at):
			kept = append(kept, t)
		default:
			t.over.Store(true)
			for j, c := range t.charges {
				if !recorded(c, &t.limits[j]) {
					continue
				}
				s := a.spentOn(&t.limits[j])
				if t.limits[j].Spec.Algorithm == specs.Window {
					s.bucket(c.From).n += c.To
				} else {
					s.each = t.shares[j].Spec.Interval
					s.take(c.From, c.To, int64(now))
				}
			}
		}
	}
	a.grants, a.folded = kept, len(kept)
}

func (a *localStore) spentOn(l *store.Limit) *record {
	k := l.Key()
	t := a.spent[k]
	if t == nil {
		if a.spent == nil {
			a.spent = make(map[store.Key]*record)
		}
		t = &record{limit: *l}
		a.spent[k] = t
	}
	return t
}

// report applies notes to the local accounts. It keeps notes that concern the fleet for the store. The unused part of slots that the store
// granted stays charged there.
//
// If they were on their way to the store, as an operation with a number, it may have heeded them.
func (a *localStore) report(ctx context.Context, stack *store.Stack, notes []store.Note, away absence, number int64) (store.Instant, int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own, n := a.share(stack, away), away.processes
	now := a.store.Now()
	mine := make([]store.Note, 0, len(notes))
	for i := range notes {
		note := notes[i]
		l := &stack.Limits[note.Limit]
		switch note.Kind {
		case store.NoteRelease:
			release := note
			release.Limit = 0
			a.owe(debt{limits: stack.Limits[note.Limit : note.Limit+1], notes: []store.Note{release}})
		case store.NoteLearn:
			if a := l.Spec.Algorithm; a == specs.GCRA || a == specs.Allowance {
				note.Value = min(note.Value*int64(n), specs.MaxPeriod.Microseconds())
			} else if note.Value > 0 {
				note.Value = max(1, note.Value/int64(n))
			}
		case store.NoteAnswer:
			if d := note.Empties(); d > 0 {
				t := a.spentOn(l)
				t.paused = max(t.paused, now.Add(d))
			}
			if note.Remaining > 0 {
				note.Remaining /= int64(n)
			}
			if !note.Local {
				note.Cost = 0
			}
		case store.NoteSettle:
			if note.Local {
				break
			}
			if more := note.Actual - note.Cost; more <= 0 {
				a.dropped++
			} else if number == 0 {
				a.spentOn(l).owe(note.Charge.From, more)
			}
			continue
		case store.NoteSlow, store.NoteStray, store.NoteClaim, store.NoteRenew, store.NoteResume, store.NoteReset:
		}
		mine = append(mine, note)
	}
	if number > 0 {
		a.owe(debt{stack.Limits, slices.DeleteFunc(slices.Clone(notes), func(n store.Note) bool { return !charges(&n) }), number})
	}
	return a.store.Report(ctx, own, mine)
}

// owe keeps notes for the store. If they are too many, they are dropped and counted: permits stay taken until their leases run out, and what
// the store may have charged already is not charged again. The caller holds mu.
func (a *localStore) owe(d debt) {
	if a.owing+len(d.notes) > maxOwed {
		a.dropped += len(d.notes)
		return
	}
	d.limits = slices.Clone(d.limits) // the caller's may be used for something else
	a.owed, a.owing = append(a.owed, d), a.owing+len(d.notes)
}

// drop counts slots that are not given back to the store. Permits are, later.
func (a *localStore) drop(stack *store.Stack, grants []store.Grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropped += len(grants)
	for i := range grants {
		for j, c := range grants[i].Charges {
			if stack.Limits[j].Spec.Algorithm == specs.Concurrency && c.To > 0 {
				a.owe(debt{limits: stack.Limits[j : j+1], notes: []store.Note{{Kind: store.NoteRelease, Value: c.From}}})
			}
		}
	}
}

// droppedSince returns how many slots and notes were dropped since its last call.
func (a *localStore) droppedSince() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, a.dropped = a.dropped, 0
	return n
}

// A bill is what a process spent locally, and what else it has to report to the store.
type bill struct {
	spent    map[store.Key]*record
	owed     []debt
	reserved map[store.Key]int64
}

// take takes the bill of what has gone. The caller either pays it or puts it back.
func (a *localStore) take() bill {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fold(a.store.Now())
	b := bill{a.spent, a.owed, a.reserved}
	a.spent, a.owed, a.owing, a.reserved = nil, nil, 0, make(map[store.Key]int64)
	return b
}

// put puts back what was not paid.
func (a *localStore) put(b bill) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range b.spent {
		into := a.spentOn(&t.limit)
		into.each, into.extra, into.paused = max(into.each, t.each), into.extra+t.extra, max(into.paused, t.paused)
		for _, s := range t.spans {
			into.take(s.from, s.to, 0)
		}
		for _, h := range t.counts {
			into.bucket(h.bucket).n += h.n
		}
	}
	a.owed, a.owing, a.reserved = append(b.owed, a.owed...), 0, b.reserved
	for i := range a.owed {
		a.owing += len(a.owed[i].notes)
	}
}
