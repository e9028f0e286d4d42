package charges

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// Accounts pace this process without the shared store, at its share of every limit ([policies.Policy.Share]), from where the ledger ends.
type Accounts struct {
	policy  func(*store.Limit) policies.Policy
	permits func() []readings.Report // which calls hold permits
	known   *Ledger
	bill    *Bill
	store   *memstore.Store

	mu        sync.Mutex
	permitsIn *Absence           // for which they know of the permits
	covered   map[store.Key]bool // the limits whose shares are reserved; nil unless the process is returning
}

// An Absence is a time without the shared store.
type Absence struct {
	Processes int           // how many there are
	Rank      int           // how many of them came before this one
	Counted   bool          // all others know that, too
	Since     store.Instant // when the first request that failed began
	Found     store.Instant // when it failed
	Over      chan struct{} // not nil if this process has no share. Closed when calls need not wait for that any longer
}

// NewAccounts returns accounts by the store's time, with the policies of limits, and the calls of this process that hold permits.
func NewAccounts(known *Ledger, b *Bill, now func() store.Instant, policy func(*store.Limit) policies.Policy, permits func() []readings.Report) *Accounts {
	return &Accounts{policy: policy, permits: permits, known: known, bill: b, store: memstore.New(memstore.WithClock(now))}
}

// Listen calls a function with the news of the accounts, until stop is called.
func (a *Accounts) Listen(upstream string, listener func(store.News)) (stop func()) {
	return a.store.Listen(upstream, listener)
}

// Share returns a stack with the limits that hold for this process.
//
// A rate is strict if it has fewer calls in a burst than there are processes. Each process starts its calls in cells of its own: every n-th
// emission interval of the fleet. So no two processes start a call in the same cell, however idle they are. Two such rates may have no slot
// in common, so only the first of a stack is bound to its cells. A process that the others may not have counted has no rank, and so no cells.
func (a *Accounts) Share(stack *store.Stack, away *Absence) store.Stack {
	own := store.Stack{Upstream: stack.Upstream, Limits: slices.Clone(stack.Limits)}
	n, rank, mayTurn := int64(away.Processes), int64(away.Rank), away.Counted
	for i := range own.Limits {
		l := &own.Limits[i]
		limit := l.Spec.Limit
		if l.Spec.Algorithm == specs.Allowance {
			continue // readings are divided
		}
		switch l.Spec = a.policy(l).Share(away.Processes); {
		case l.Spec.Algorithm == specs.GCRA && mayTurn && limit < n:
			l.Spec.Phase, mayTurn = cmp.Or(rank*(l.Spec.Interval/n), l.Spec.Interval), false
		case l.Spec.Algorithm == specs.Concurrency && away.Counted && rank < limit%max(1, n):
			l.Spec.Limit++ // permits that cannot be divided go to the processes that came first
		}
	}
	return own
}

// Reserve grants slots. If the process is about to return to its store, which would not know of the calls, it returns the limit that they
// have to wait for, or else BindsNothing.
func (a *Accounts) Reserve(
	ctx context.Context, stack *store.Stack, calls []store.Call, grants []store.Grant, away *Absence,
) (waitsFor int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range stack.Limits {
		if l := &stack.Limits[i]; a.covered != nil && l.Spec.Algorithm == specs.Concurrency && !a.covered[l.Key()] {
			return i, nil
		}
	}
	own := a.Share(stack, away)
	if err := a.begin(ctx, stack, &own, away); err != nil {
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
		if err := a.note(ctx, own, beyond(&own, g)); err != nil {
			return store.BindsNothing, err
		}
		t := &localGrant{limits: limits, shares: own.Limits, charges: slices.Clone(g.Charges), at: g.At}
		g.Local, g.Receipt = true, t
		a.bill.granted(t, a.store.Now())
	}
	return store.BindsNothing, nil
}

// note applies notes to the accounts.
func (a *Accounts) note(ctx context.Context, own store.Stack, notes []store.Note) error {
	if len(notes) == 0 {
		return nil
	}
	_, _, err := a.store.Report(ctx, own, notes)
	return err
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
			notes = append(notes, claim(i, at, min(left, s.Limit)))
		}
	}
	return notes
}

// begin charges the accounts of a stack, once in an absence, with what the store was known to hold. The caller holds mu.
func (a *Accounts) begin(ctx context.Context, stack, own *store.Stack, away *Absence) error {
	now := a.store.Now()
	var initial []store.Note
	a.known.mu.Lock()
	for i := range stack.Limits {
		t, share := a.known.of(&stack.Limits[i], int64(now)), &own.Limits[i].Spec
		if t.seeded == away {
			continue
		}
		t.seeded = away
		limit, _ := a.policy(&stack.Limits[i]).Limit()
		initial = append(initial, t.startLocal(i, share, away, limit, int64(now))...)
		if share.Algorithm == specs.Concurrency {
			for range min(t.others(share.Limit, int64(now)), maxForeign) {
				initial = append(initial, store.Note{Kind: store.NoteRenew, Limit: i, Value: store.NewID(), At: now})
			}
		}
	}
	a.known.mu.Unlock()
	if err := a.note(ctx, *own, initial); err != nil || a.permitsIn == away {
		return err
	}
	a.permitsIn = away
	for _, m := range a.permits() {
		if err := a.note(ctx, a.Share(&store.Stack{Upstream: stack.Upstream, Limits: m.Limits}, away), m.Notes); err != nil {
			return err
		}
	}
	return nil
}

// ReserveShares returns reports that reserve, of each limit in use, what calls of this process may begin to use until the barrier: others get
// slots and permits then, perhaps before this process has reported what it spent. Of a rate, these are its cells; permits it owes back.
// Running are the calls that the store learns of with them. Calls that need more than maxReserved wait until the process is back.
func (a *Accounts) ReserveShares(running []readings.Report, away *Absence, barrier int64) []readings.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known.mu.Lock()
	defer a.known.mu.Unlock()
	a.bill.mu.Lock()
	defer a.bill.mu.Unlock()
	a.covered = make(map[store.Key]bool)
	a.bill.fold(a.store.Now())
	var reserve readings.Reports
	now, held, room := int64(a.store.Now()), permitsOf(running), int64(maxReserved)
	for k, t := range a.known.keys {
		if t.seeded != away {
			continue
		}
		own := a.Share(&store.Stack{Limits: []store.Limit{t.limit}}, away).Limits[0].Spec
		if n := int64(away.Processes); own.Algorithm == specs.GCRA && n > 1 {
			cell, spent := now-(now-int64(away.Rank)*(own.Interval/n))%own.Interval, a.bill.spent[k]
			if spent == nil || spent.to <= cell { // no call has started in it
				cell += own.Interval
			}
			for ; cell < barrier && room > 0; cell, room = cell+own.Interval, room-1 {
				reserve.Add(&t.limit, claim(0, cell, cell+t.limit.Spec.Interval))
			}
		}
		n := own.Limit - held[k]
		if own.Algorithm != specs.Concurrency || n > room {
			continue
		}
		room -= max(0, n)
		a.covered[k] = true
		for i := range n {
			reserve.Add(&t.limit, store.Note{Kind: store.NoteRenew, Value: a.bill.firstID + i, At: store.Instant(now)})
			a.bill.returned(&t.limit, a.bill.firstID+i)
		}
	}
	return reserve.All
}

// Returned ends what reserveShares began: the process is back, or has failed to come back.
func (a *Accounts) Returned() {
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

// Cancel gives local grants back to the accounts that they were charged to. It returns the rest, and what the store knows of local ones.
func (a *Accounts) Cancel(ctx context.Context, upstream string, grants []store.Grant) (rest []store.Grant, known []store.Batch, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range grants {
		t := localGrantOf(&g)
		if !g.Local {
			rest = append(rest, g)
		}
		if t == nil {
			continue
		}
		if err := a.store.Cancel(ctx, store.Stack{Upstream: upstream, Limits: t.shares}, []store.Grant{{Charges: t.charges}}); err != nil {
			return nil, nil, err
		}
		if theirs := a.bill.cancelled(t); theirs != nil {
			known = append(known, store.Batch{Stack: store.Stack{Upstream: upstream, Limits: t.limits}, Grants: []store.Grant{{OK: true, Charges: theirs}}})
		}
	}
	return rest, known, nil
}

// Report applies notes to the accounts, and to the bill what concerns the fleet, once with the operation that was on its way to the store.
func (a *Accounts) Report(ctx context.Context, stack *store.Stack, notes []store.Note, away *Absence, once *store.Once) (store.Instant, int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bill.noted(stack, notes, a.store.Now(), once)
	n, mine := int64(away.Processes), make([]store.Note, 0, len(notes))
	for _, note := range notes {
		switch note.Kind {
		case store.NoteLearn:
			if a := stack.Limits[note.Limit].Spec.Algorithm; a == specs.GCRA || a == specs.Allowance {
				note.Value = min(note.Value*n, specs.MaxPeriod.Microseconds())
			} else if note.Value > 0 {
				note.Value = max(1, note.Value/n)
			}
		case store.NoteAnswer:
			if note.Remaining > 0 {
				note.Remaining /= n
			}
			if !note.Local {
				note.Cost = 0
			}
		case store.NoteSettle:
			if !note.Local {
				continue
			}
		case store.NoteRelease, store.NoteSlow, store.NoteStray, store.NoteClaim, store.NoteRenew, store.NoteResume, store.NoteReset:
		}
		mine = append(mine, note)
	}
	return a.store.Report(ctx, a.Share(stack, away), mine)
}

// Status returns what the accounts hold of a stack.
func (a *Accounts) Status(ctx context.Context, stack *store.Stack, away *Absence) (store.StackStatus, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store.Status(ctx, a.Share(stack, away))
}
