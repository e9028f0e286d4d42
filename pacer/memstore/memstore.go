package memstore

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/store"
)

// DefaultMaxKeys is the most keys of a Store unless [WithMaxKeys] sets another number: about a million, which take a few hundred megabytes.
const DefaultMaxKeys = 1 << 20

// ErrFull is the cause of a *pacer.StoreError if a call needs a new key, and the Store has its maximum and finds none that it may forget.
// To forget a key in use would break its limit. Each such call checks at most 512 keys, and the next call continues from there.
var ErrFull = errors.New("memstore: full of keys in use: raise WithMaxKeys, or scope policies by something with fewer values")

// A Store keeps the accounts of this process. Its clock is the monotonic clock, so it never steps. Keys that have no effect any more are
// evicted as others are used: there is no goroutine and nothing to close. It is safe for concurrent use: calls with different scope values
// hardly ever wait for each other.
type Store struct {
	clock func() int64 // store time in µs
	keys  keys
	epoch store.Epoch // of the data

	allowances sync.Map // [2]string of upstreams and the allowances by which their calls are bound

	mu        sync.Mutex // taken after those of shards
	settings  map[string]*store.Settings
	bookings  bookings
	listeners []*listener
}

var (
	_ store.Direct   = (*Store)(nil)
	_ store.Notifier = (*Store)(nil)
)

// An Option configures a [Store].
type Option func(*Store)

// WithMaxKeys sets the most keys that the store holds; below 1 means [DefaultMaxKeys]. A call that needs one more is refused with
// [ErrFull].
func WithMaxKeys(n int) Option {
	return func(m *Store) {
		if n > 0 {
			m.keys.most = int64(n)
		}
	}
}

// WithClock sets the store's clock, for simulations and tests. It must not step back by more than a second. Defaults to the monotonic
// clock, which starts at the current time of day.
func WithClock(now func() store.Instant) Option {
	return func(m *Store) { m.clock = func() int64 { return int64(now()) } }
}

// New returns a store for this process. Pacers that use the same store share the limits whose upstream and policy have the same names.
func New(opts ...Option) *Store {
	start := time.Now()
	epoch := start.UnixMicro()
	m := &Store{
		clock: func() int64 { return epoch + time.Since(start).Microseconds() },
	}
	m.keys.most, m.keys.seed = DefaultMaxKeys, maphash.MakeSeed()
	for _, o := range opts {
		o(m)
	}
	m.epoch.Began = max(1, store.Instant(epoch)) // not by WithClock's clock, which may begin at 0
	return m
}

// Reserve implements [store.Store].
func (m *Store) Reserve(_ context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	changes, err := m.reserve(stack, calls, grants)
	m.notify(stack.Upstream, changes)
	return err
}

// reserve also returns what to notify listeners of.
func (m *Store) reserve(stack store.Stack, calls []store.Call, grants []store.Grant) (changes []store.Change, err error) {
	reach := store.ReachOf(calls)
	var (
		o       opened
		room    [store.FewLimits]engine.Entry
		charges [store.FewLimits]engine.Charge
	)
	entries, err := m.open(room[:0], &o, &stack, engine.Micros(reach), true)
	if err != nil {
		return nil, err
	}
	defer m.close(&o)
	for i := range calls {
		c := &calls[i]
		ask := engine.Call{
			Cost: c.Cost, Costs: c.Costs, NotBefore: engine.MicrosUp(c.NotBefore), MaxWait: engine.Micros(c.MaxWait), Kept: c.Kept,
		}
		if c.ID != 0 {
			ask.ID, ask.Since, ask.Flow, ask.Weight, ask.Owed = c.ID, int64(c.Since), c.Flow, c.Weight, c.Owed
			ask.Slot, ask.Reach = int64(c.Slot), engine.Micros(c.Reach)
			for _, held := range c.Held {
				ask.Held = append(ask.Held, engine.Charge(held))
			}
		}
		var (
			k     int
			g     engine.Grant
			taken []engine.Charge
			more  []int64
		)
		switch {
		case c.AnyOf != nil:
			k, g, taken, more = engine.ReserveAny(o.now, entries, choicesOf(c, entries), c.First, ask, charges[:0])
		case c.ID == 0:
			g, taken = engine.Reserve(o.now, entries, ask, charges[:0])
		default:
			g, taken, more = engine.ReserveQueued(o.now, entries, ask, charges[:0])
		}
		changes = append(changes, woken(more)...)
		of := &grants[i]
		*of = store.Grant{
			OK: g.OK, Now: store.Instant(o.now), At: store.Instant(g.At), Slack: time.Duration(g.Slack) * time.Microsecond, Binds: c.LimitOf(k, g.Binds),
			Paused: store.Instant(g.Paused), Charges: of.Charges[:0], Choice: k, Queued: g.Queued, Ahead: g.Ahead,
		}
		of.Bound(stack.Limits, c, reach)
		if g.OK {
			of.Charges = slices.Grow(of.Charges, len(entries))[:len(entries)]
			clear(of.Charges)
		}
		for j, charge := range taken {
			if charge.To != 0 {
				charge.Made = o.now
			}
			of.Charges[c.LimitOf(k, j)] = store.Charge(charge)
		}
	}
	for i := range calls {
		o.wrote = o.wrote || grants[i].OK || grants[i].Queued || calls[i].Held != nil
	}
	return append(changes, resumed(&stack, entries, o.now)...), nil
}

// choicesOf returns the choices of a call by the accounts of its stack.
func choicesOf(c *store.Call, entries []engine.Entry) []engine.Choice {
	choices := make([]engine.Choice, len(c.AnyOf))
	for k, indexes := range c.AnyOf {
		choices[k].Kept = c.KeptOf(indexes)
		for _, i := range indexes {
			choices[k].Stack = append(choices[k].Stack, entries[i])
			if c.Costs != nil {
				choices[k].Costs = append(choices[k].Costs, c.Costs[i])
			}
			if c.Owed != nil {
				choices[k].Owed = append(choices[k].Owed, c.Owed[i])
			}
		}
	}
	return choices
}

// woken returns the changes that make calls poll.
func woken(ids []int64) (changes []store.Change) {
	for _, id := range ids {
		changes = append(changes, store.Change{Kind: store.Wake, ID: id})
	}
	return changes
}

// resumed returns the changes for calls that found no room in an account, if what was given back makes some.
func resumed(stack *store.Stack, entries []engine.Entry, now int64) (changes []store.Change) {
	for i := range entries {
		if l := &stack.Limits[i]; entries[i].More {
			changes = append(changes, store.Change{Kind: store.Resumed, Policy: l.Policy, Scope: l.Scope, Now: store.Instant(now)})
		}
	}
	return changes
}

// notify notifies the listeners of changes, if there are any. The caller holds no lock.
func (m *Store) notify(upstream string, changes []store.Change) {
	if len(changes) == 0 {
		return
	}
	m.mu.Lock()
	listeners := slices.Clone(m.listeners)
	m.mu.Unlock()
	for _, l := range listeners {
		l.notify(upstream, store.News{Changes: changes})
	}
}

// open locks the accounts of a stack, reads the clock, and appends the accounts to entries. The caller must close what was opened, unless
// there is an error.
func (m *Store) open(entries []engine.Entry, o *opened, stack *store.Stack, reach int64, keep bool) (found []engine.Entry, err error) {
	done := false
	defer func() {
		if !done { // an error, or a clock of the user's that panics
			m.keys.unlock(o.shards)
		}
	}()
	o.shards = m.keys.shardsOf(stack)
	m.keys.lock(o.shards)
	o.now = m.clock()
	found, err = m.keys.find(entries, o, stack, reach, keep)
	if errors.Is(err, ErrFull) { // as far as these shards know
		m.keys.unlock(o.shards)
		o.shards = allShards
		m.keys.lock(o.shards)
		o.now = m.clock()
		if err = m.keys.makeRoom(stack, o.now); err == nil {
			found, err = m.keys.find(entries, o, stack, reach, keep)
		}
	}
	done = err == nil
	return found, err
}

// close unlocks the accounts of a stack.
func (m *Store) close(o *opened) {
	for i := 0; i < len(o.turned) && o.wrote; i++ {
		o.turned[i].Kept = o.turned[i].next
	}
	m.keys.evictBeside(o)
	m.keys.unlock(o.shards)
	m.keys.sweep(o.now)
}

// Cancel implements [store.Store].
func (m *Store) Cancel(_ context.Context, stack store.Stack, grants []store.Grant) error {
	changes, err := m.cancel(stack, grants)
	m.notify(stack.Upstream, changes)
	return err
}

func (m *Store) cancel(stack store.Stack, grants []store.Grant) (changes []store.Change, err error) {
	var o opened
	entries, err := m.open(nil, &o, &stack, 0, false)
	if err != nil {
		return nil, err
	}
	defer m.close(&o) // charges on another grid are not given back
	for i := range grants {
		for j, c := range grants[i].Charges {
			entries[j].Cancel(o.now, engine.Charge(c))
		}
	}
	changes = resumed(&stack, entries, o.now)
	for i := 0; i < len(entries) && len(grants) > 0; i++ {
		changes = append(changes, woken(entries[i].Next(o.now, 0))...)
	}
	return changes, nil
}

// Report implements [store.Store].
func (m *Store) Report(_ context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	now, changed, changes, err := m.apply(stack, notes)
	m.notify(stack.Upstream, changes)
	return now, changed, err
}

func (m *Store) apply(stack store.Stack, notes []store.Note) (at store.Instant, changed int, changes []store.Change, err error) {
	var o opened
	entries, err := m.open(nil, &o, &stack, 0, true)
	if err != nil {
		return store.Instant(o.now), 0, nil, err
	}
	o.wrote = true
	defer m.close(&o)
	for i := range notes {
		n := &notes[i]
		did, slower := applyOne(&entries[n.Limit], o.now, n)
		if n.Kind == store.NoteAnswer {
			if _, known := m.allowances.LoadOrStore([2]string{stack.Upstream, stack.Limits[n.Limit].Policy}, true); !known {
				changes = append(changes, store.Change{Kind: store.EpochBegan})
			}
			c := answered(&entries[n.Limit], o.now, n)
			if did = c.Kind != 0; did {
				l := &stack.Limits[n.Limit]
				c.Policy, c.Scope, c.Now = l.Policy, l.Scope, store.Instant(o.now)
				changes = append(changes, c)
			}
		}
		if did {
			changed++
		}
		if c, ok := n.Change(stack, store.Instant(o.now), slower); ok && n.Kind != store.NoteAnswer {
			changes = append(changes, c)
		}
	}
	for i := range entries {
		if !slices.ContainsFunc(notes, func(n store.Note) bool { return n.Kind == store.NoteRelease && n.Limit == i }) {
			continue
		}
		changes = append(changes, woken(entries[i].Next(o.now, 0))...)
	}
	return store.Instant(o.now), changed, changes, nil
}

// answered applies an answer, and returns its meaning for waiting calls; the zero Change for none.
func answered(e *engine.Entry, now int64, n *store.Note) (c store.Change) {
	a, ok := e.Account.(*engine.Allowance)
	if !ok {
		return c
	}
	r := engine.Answered{
		Slot: int64(n.At), Cost: n.Cost, Left: n.Remaining, Reset: engine.MicrosUp(n.For), Guessed: n.Guessed, Refused: n.Refused, Teaches: n.Teaches, Open: n.Value,
	}
	switch a.Answer(&e.Limit, now, r) {
	case engine.NoNews:
	case engine.More:
		c.Kind = store.Resumed
	case engine.Less:
		c.Kind = store.Slowed
		if until := a.Paused(); until > now {
			c.Kind, c.Until = store.Paused, store.Instant(until)
		}
	}
	return c
}

// applyOne applies a note about one limit. It returns whether it made a difference, and whether the limit is slower now.
func applyOne(e *engine.Entry, now int64, n *store.Note) (changed, slower bool) {
	a, l := e.Account, &e.Limit
	switch n.Kind {
	case store.NoteResume:
		if a, ok := a.(*engine.Allowance); ok {
			a.Resume(now)
		}
	case store.NoteSlow:
		changed = a.Slow(l, now, cmp.Or(int64(n.At), now))
		return changed, changed
	case store.NoteStray:
		alone, slower := a.Stray(l, now, cmp.Or(int64(n.At), now), engine.Stray{Within: engine.MicrosUp(n.For), Step: n.Value, Most: n.Remaining})
		return !alone, slower
	case store.NoteLearn:
		return a.Learn(l, now, n.Value, now+engine.MicrosUp(n.For)), false
	case store.NoteAnswer: // see answered
	case store.NoteSettle:
		a.Settle(l, now, engine.Charge(n.Charge), n.Cost, n.Actual)
	case store.NoteClaim:
		return a.Claim(l, now, engine.Charge(n.Charge)), false
	case store.NoteReset:
		a.Reset(now)
	case store.NoteRenew:
		a.Renew(l, now, n.Value, int64(n.At))
	case store.NoteRelease:
		a.Release(l, engine.Left{ID: n.Value, Flow: n.Charge.From, Weight: n.Charge.To, Cost: n.Cost, Owed: n.Actual})
	}
	return false, false
}

// Listen implements [store.Notifier].
func (m *Store) Listen(upstream string, receive func(store.News)) (stop func()) {
	l := &listener{upstream: upstream, receive: receive}
	l.idle.L = &l.mu
	m.mu.Lock()
	m.listeners = append(m.listeners, l)
	m.mu.Unlock()
	l.notify(upstream, store.News{Missed: true})
	return func() {
		m.mu.Lock()
		m.listeners = slices.DeleteFunc(m.listeners, func(other *listener) bool { return other == l })
		m.mu.Unlock()
		l.stop()
	}
}

// Now implements [store.Direct].
func (m *Store) Now() store.Instant { return store.Instant(m.clock()) }

// Status implements [store.Store].
func (m *Store) Status(_ context.Context, stack store.Stack) (store.StackStatus, error) {
	var o opened
	entries, err := m.open(nil, &o, &stack, engine.Micros(store.Forever), false)
	if err != nil {
		return store.StackStatus{}, err
	}
	defer m.close(&o)
	s := store.StackStatus{Now: store.Instant(o.now), Limits: make([]store.LimitStatus, len(entries))}
	for i := range entries {
		in := engine.Inspect(entries, i, o.now)
		s.Limits[i] = store.LimitStatus{
			Remaining: in.Remaining, Next: store.Instant(in.Next), Backlog: in.Backlog, Paused: store.Instant(in.Paused),
			Pace: in.Pace, Queued: in.Queued, Margin: in.Margin, Full: store.Instant(in.Full),
		}
	}
	return s, nil
}

// Len returns how many keys the store holds.
func (m *Store) Len() int { return int(m.keys.count.Load()) }

// Listeners returns how many listeners the store has.
func (m *Store) Listeners() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.listeners)
}
