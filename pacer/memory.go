package pacer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/engine"
)

// DefaultMaxKeys is how many keys a [MemoryStore] keeps, unless [MemoryMaxKeys] says otherwise: about a
// million, which takes a few hundred megabytes.
const DefaultMaxKeys = 1 << 20

// ErrStoreFull is the cause of a [*StoreError] of a [MemoryStore] that holds its maximum of keys, all in use.
// Forgetting one of them would break its limit.
var ErrStoreFull = errors.New("pacer: the memory store is full of keys in use: raise it with MemoryMaxKeys, or scope policies by something with fewer values")

// A MemoryStore keeps the accounts of this process. Its clock is the monotonic clock, so it never steps. Keys
// that mean nothing any more are evicted as others are used: there is no goroutine and nothing to close. It
// is safe for concurrent use.
type MemoryStore struct {
	maxKeys int
	clock   func() int64 // store time in µs

	mu     sync.Mutex
	keys   map[memoryKey]engine.Account
	queue  []memoryKey // all keys, as a ring that eviction walks
	hand   int
	pauses map[string]int64 // by upstream
	stack  []engine.Entry   // reused
	charge []engine.Charge  // reused

	listeners []*memoryListener
}

type memoryKey struct{ upstream, policy, scope string }

var (
	_ Store    = (*MemoryStore)(nil)
	_ Notifier = (*MemoryStore)(nil)
)

// A MemoryOption sets something of a [MemoryStore].
type MemoryOption func(*MemoryStore)

// MemoryMaxKeys sets how many keys the store holds at most; below 1 means [DefaultMaxKeys]. A call that needs
// one more is refused with [ErrStoreFull].
func MemoryMaxKeys(n int) MemoryOption {
	return func(m *MemoryStore) {
		if n > 0 {
			m.maxKeys = n
		}
	}
}

// MemoryClock sets the store's clock, for simulations and tests. It must not step back by more than a second.
// Defaults to the monotonic clock, begun at the time of day.
func MemoryClock(now func() Instant) MemoryOption {
	return func(m *MemoryStore) { m.clock = func() int64 { return int64(now()) } }
}

// evictGrace is for how long a key is kept past its last effect, in µs: a clock that steps back a little
// still finds it.
const evictGrace = 1_000_000

// NewMemoryStore returns a store for this process alone. Pacers that share one share their limits, as far as
// upstreams and policies have the same names.
func NewMemoryStore(opts ...MemoryOption) *MemoryStore {
	start := time.Now()
	epoch := start.UnixMicro()
	m := &MemoryStore{
		maxKeys: DefaultMaxKeys,
		clock:   func() int64 { return epoch + time.Since(start).Microseconds() },
		keys:    make(map[memoryKey]engine.Account),
		pauses:  make(map[string]int64),
	}
	for _, o := range opts {
		o(m)
	}
	return m
}

// Reserve implements [Store].
func (m *MemoryStore) Reserve(_ context.Context, stack Stack, calls []Call, grants []Grant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	var furthest int64
	for i := range calls {
		furthest = max(furthest, engine.Micros(calls[i].MaxWait))
	}
	entries, err := m.entries(stack, now, now+furthest, true)
	if err != nil {
		return err
	}
	for i := range calls {
		c := &calls[i]
		g, charges := engine.Reserve(now, m.pauses[stack.Upstream], entries, engine.Call{
			Cost: c.Cost, Costs: c.Costs, Tracked: c.Tracked, NotBefore: engine.MicrosUp(c.NotBefore), MaxWait: engine.Micros(c.MaxWait),
		}, m.charge[:0])
		m.charge = charges
		grants[i] = Grant{
			OK: g.OK, Now: Instant(now), At: Instant(g.At), Slack: time.Duration(g.Slack) * time.Microsecond,
			Binds: g.Binds, Paused: g.Paused, Charges: grants[i].Charges[:0],
		}
		for _, c := range charges {
			grants[i].Charges = append(grants[i].Charges, Charge(c))
		}
	}
	m.evict(now, 2*len(stack.Limits))
	return nil
}

// entries finds the accounts of a stack. Missing ones are made, and kept if keep is set. The result is valid
// until the next call.
func (m *MemoryStore) entries(stack Stack, now, until int64, keep bool) ([]engine.Entry, error) {
	if keep {
		if err := m.makeRoom(stack, now); err != nil {
			return nil, err
		}
	}
	m.stack = m.stack[:0]
	for i := range stack.Limits {
		l := &stack.Limits[i]
		key := memoryKey{stack.Upstream, l.Policy, l.Scope}
		account := m.keys[key]
		if account == nil {
			account = engine.NewAccount(l.Spec.Algorithm)
			if account == nil {
				return nil, fmt.Errorf("policy %q: unknown algorithm %d", l.Policy, l.Spec.Algorithm)
			}
			if keep {
				m.keys[key] = account
				m.queue = append(m.queue, key)
			}
		}
		if !engine.Keeps(account, l.Spec.Algorithm) {
			return nil, fmt.Errorf("policy %q is kept by another algorithm than %s: give the changed policy another name", l.Policy, l.Spec.Algorithm)
		}
		limit := engine.Limit{Spec: l.Spec}
		if l.Spec.Calendar != nil {
			limit.Bounds = l.Spec.Calendar.Bounds(now, until)
		}
		m.stack = append(m.stack, engine.Entry{Account: account, Limit: limit})
	}
	return m.stack, nil
}

// makeRoom sees to it that the keys of a stack fit, before any of them is looked up: what is evicted later could be one of them.
func (m *MemoryStore) makeRoom(stack Stack, now int64) error {
	for range len(m.queue) { // looks at every key once before giving up
		if len(m.keys)+m.missing(stack) <= m.maxKeys {
			return nil
		}
		m.evict(now, 1)
	}
	if len(m.keys)+m.missing(stack) > m.maxKeys {
		return ErrStoreFull
	}
	return nil
}

// missing counts the keys of a stack that the store does not have.
func (m *MemoryStore) missing(stack Stack) int {
	if len(m.keys)+len(stack.Limits) <= m.maxKeys {
		return 0 // they fit, whichever are missing
	}
	n := 0
	for i := range stack.Limits {
		l := &stack.Limits[i]
		if m.keys[memoryKey{stack.Upstream, l.Policy, l.Scope}] == nil {
			n++
		}
	}
	return n
}

// evict looks at the next n keys of the ring and forgets those that mean nothing any more. With two for each
// key that an operation may add, the ring shrinks faster than it can grow, as long as keys expire.
func (m *MemoryStore) evict(now int64, n int) {
	for range n {
		if len(m.queue) == 0 {
			return
		}
		if m.hand >= len(m.queue) {
			m.hand = 0
		}
		key := m.queue[m.hand]
		if m.keys[key].Expires()+evictGrace > now {
			m.hand++
			continue
		}
		delete(m.keys, key)
		last := len(m.queue) - 1
		m.queue[m.hand] = m.queue[last]
		m.queue[last] = memoryKey{}
		m.queue = m.queue[:last]
	}
}

// Cancel implements [Store].
func (m *MemoryStore) Cancel(_ context.Context, stack Stack, grants []Grant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	entries, err := m.entries(stack, now, now, false)
	if err != nil {
		return err
	}
	for i := range grants {
		for j, c := range grants[i].Charges {
			entries[j].Account.Cancel(&entries[j].Limit, now, engine.Charge(c))
		}
	}
	return nil
}

// Report implements [Store].
func (m *MemoryStore) Report(_ context.Context, stack Stack, notes []Note) (Instant, int, error) {
	m.mu.Lock()
	now, changed, said, err := m.heed(stack, notes)
	var listeners []*memoryListener
	if len(said) > 0 {
		listeners = slices.Clone(m.listeners)
	}
	m.mu.Unlock()
	for _, l := range listeners {
		l.tell(stack.Upstream, said)
	}
	return Instant(now), changed, err
}

func (m *MemoryStore) heed(stack Stack, notes []Note) (now int64, changed int, said []Change, err error) {
	now = m.clock()
	entries, err := m.entries(stack, now, now, true)
	if err != nil {
		return now, 0, nil, err
	}
	for i := range notes {
		n := &notes[i]
		did := false
		switch {
		case n.Limit != WholeUpstream:
			did = heedOne(&entries[n.Limit], now, n)
		case n.Kind == NotePause:
			m.pauses[stack.Upstream] = max(m.pauses[stack.Upstream], now+engine.MicrosUp(n.For))
		default:
			delete(m.pauses, stack.Upstream)
		}
		if did {
			changed++
		}
		if c, ok := n.change(stack, Instant(now), did); ok {
			said = append(said, c)
		}
	}
	m.evict(now, 2*len(stack.Limits))
	return now, changed, said, nil
}

func heedOne(e *engine.Entry, now int64, n *Note) (changed bool) {
	a, l := e.Account, &e.Limit
	switch n.Kind {
	case NotePause:
		a.Pause(now + engine.MicrosUp(n.For))
	case NoteResume:
		a.Resume(now)
	case NoteSlow:
		at := int64(n.At)
		if at == 0 {
			at = now
		}
		return a.Slow(l, now, at)
	case NoteLearn:
		return a.Learn(l, now, n.Value, now+engine.MicrosUp(n.For))
	case NoteRemaining:
		return a.Remaining(l, now, n.Bucket, n.Remaining, n.Done, now+engine.MicrosUp(n.For))
	case NoteSettle:
		a.Settle(l, now, engine.Charge(n.Charge), n.Cost, n.Actual)
	case NoteClaim:
		a.Claim(l, now, engine.Charge(n.Charge))
	case NoteReset:
		a.Reset()
	}
	return false
}

// memoryListener is somebody who wants to hear of pauses.
type memoryListener struct {
	upstream string
	heard    func(News)

	mu      sync.Mutex
	stopped bool
}

// tell is called without the store's lock: who hears of a pause asks the store for slots behind it.
func (l *memoryListener) tell(upstream string, said []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped && l.upstream == upstream {
		l.heard(News{Changes: said})
	}
}

// Listen implements [Notifier].
func (m *MemoryStore) Listen(upstream string, heard func(News)) (stop func()) {
	l := &memoryListener{upstream: upstream, heard: heard}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listeners = append(m.listeners, l)
	return func() {
		m.mu.Lock()
		m.listeners = slices.DeleteFunc(m.listeners, func(other *memoryListener) bool { return other == l })
		m.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stopped = true
	}
}

// Status implements [Store].
func (m *MemoryStore) Status(_ context.Context, stack Stack) (StackStatus, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	entries, err := m.entries(stack, now, now, false)
	if err != nil {
		return StackStatus{}, err
	}
	s := StackStatus{Now: Instant(now), Limits: make([]LimitStatus, len(entries))}
	if p := m.pauses[stack.Upstream]; p > now {
		s.Paused = Instant(p)
	}
	for i := range entries {
		in := entries[i].Account.Inspect(&entries[i].Limit, now)
		s.Limits[i] = LimitStatus{Remaining: in.Remaining, Next: Instant(in.Next), Backlog: in.Backlog, Paused: Instant(in.Paused), Pace: in.Pace}
	}
	return s, nil
}
