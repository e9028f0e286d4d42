// Package faulty is for tests: a store of a fleet, in memory, with all the faults of a real one. It works in virtual time.
package faulty

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Errors of a store with faults.
var (
	ErrDown     = errors.New("connection refused")
	ErrReadOnly = errors.New("READONLY You can't write against a read only replica")
	ErrFull     = errors.New("OOM command not allowed when used memory > 'maxmemory'")
	ErrGarbage  = errors.New("the reply is malformed")
)

// Faults are the present faults of a [Store].
type Faults struct {
	All   error         // of every operation
	Write error         // of every operation that changes something
	Free  bool          // operations that only give back are no such ones
	Reply error         // in place of the answer to an operation, which is done
	Hangs bool          // nothing is answered before the context ends
	Away  time.Duration // round trip
}

// lost reports whether the connections of listeners are lost.
func (f *Faults) lost() bool { return f.All != nil || f.Hangs }

// A Store is a [store.Shared] with the accounts of a [memstore.Store].
type Store struct {
	mu        sync.Mutex
	mem       *memstore.Store
	faults    Faults
	began     store.Epoch   // of the data
	news      bool          // the epoch is not announced yet
	shift     time.Duration // of the clock
	last      store.Instant // see Latest
	replayed  store.Instant // while the log is replayed
	log       []entry
	alive     map[string]store.Instant // until when processes are there
	came      []string
	barrier   store.Instant
	done      map[store.Once]bool
	counts    map[count]int64
	listeners []*listener
	requests  int
}

// An entry is an operation that changed something, with copies of its arguments. The result of a repetition is ignored.
type entry struct {
	at store.Instant
	do func(*memstore.Store)
}

// An answer is what an operation returns.
type answer[T any] struct {
	is  T
	err error
}

// A count is a bucket of a window.
type count struct {
	key store.Key
	at  int64
}

// New returns a store without faults.
func New() *Store {
	s := &Store{}
	s.clear()
	return s
}

// clear has the store forget everything.
func (s *Store) clear() {
	s.news, s.barrier = true, 0
	s.began = store.Epoch{Began: max(s.began.Began+1, s.now())} // no two began at once
	s.log = []entry{{s.began.Began, func(*memstore.Store) {}}}
	s.begin()
}

// begin makes empty accounts.
func (s *Store) begin() {
	s.alive, s.came, s.done, s.counts = make(map[string]store.Instant), nil, make(map[store.Once]bool), make(map[count]int64)
	s.mem = memstore.New(memstore.WithClock(s.now))
	for _, l := range s.listeners {
		l.attach(s)
	}
}

// now is the store's clock. The caller holds mu.
func (s *Store) now() store.Instant {
	if s.replayed > 0 {
		return s.replayed
	}
	now := store.Instant(time.Now().Add(s.shift).UnixMicro())
	s.last = max(s.last, now)
	return now
}

// Latest returns the latest time that the store has had.
func (s *Store) Latest() store.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.now(), s.last)
}

// Now returns the store's time.
func (s *Store) Now() store.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// Suffer replaces the store's faults.
func (s *Store) Suffer(f Faults) {
	s.mu.Lock()
	back := s.faults.lost() && !f.lost()
	s.faults = f
	listeners := slices.Clone(s.listeners)
	s.mu.Unlock()
	if back {
		for _, l := range listeners {
			l.send(f.Away, store.News{Missed: true})
		}
	}
}

// Forget loses everything, as a FLUSHALL does.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
}

// FailOver loses the writes of the last time, as a replica that takes over.
func (s *Store) FailOver(lost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := s.now() - store.Instant(lost.Microseconds())
	n := max(1, len(s.log)-len(s.log[slices.IndexFunc(append(s.log, entry{at: until}), func(e entry) bool { return e.at >= until }):]))
	s.log = s.log[:n]
	s.replayed = s.log[0].at
	s.begin()
	for _, e := range s.log {
		s.replayed = e.at
		e.do(s.mem)
	}
	s.replayed = 0
}

// Step has the clock jump.
func (s *Store) Step(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shift += d
}

// Requests returns how many operations were begun.
func (s *Store) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Alive returns how many processes are there.
func (s *Store) Alive() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.living()
}

func (s *Store) living() int {
	now := s.now()
	s.came = slices.DeleteFunc(s.came, func(id string) bool { return s.alive[id] <= now })
	return len(s.came)
}

// Kinds of operations.
const (
	reads = iota
	writes
	frees
)

// operate does an operation, unless a fault prevents it. do is called with mu held.
func (s *Store) operate(ctx context.Context, kind int, do func() error) error {
	s.mu.Lock()
	s.requests++
	f := s.faults
	s.mu.Unlock()
	if err := sleep(ctx, f.Away/2); err != nil {
		return err
	}
	s.mu.Lock()
	f = s.faults
	var err error
	switch {
	case f.Hangs:
		s.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	case f.All != nil:
		err = f.All
	case f.Write != nil && (kind == writes || kind == frees && !f.Free):
		err = f.Write
	default:
		err = cmp.Or(do(), f.Reply)
	}
	s.mu.Unlock()
	return cmp.Or(sleep(ctx, f.Away/2), err)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write does a part of an operation, and records it. do may be repeated at any time: it has copies of what its caller keeps, and changes
// only a store.
func write[T any](s *Store, do func(*memstore.Store) T) T {
	s.log = append(s.log, entry{s.now(), func(m *memstore.Store) { do(m) }})
	return do(s.mem)
}

// repeated reports whether an operation was done before.
func (s *Store) repeated(o *store.Once) bool {
	if o == nil {
		return false
	}
	k := store.Once{By: o.By, Number: o.Number}
	return write(s, func(*memstore.Store) (was bool) {
		was, s.done[k] = s.done[k], true
		return was
	})
}

// Reserve implements [store.Store].
func (s *Store) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	return s.ReserveAll(ctx, []store.Batch{{Stack: stack, Calls: calls, Grants: grants}})
}

// ReserveAll implements [store.Shared].
func (s *Store) ReserveAll(ctx context.Context, batches []store.Batch) error {
	return s.operate(ctx, writes, func() error {
		known := &batches[0].Stack
		if epoch := s.began; !known.Epoch.IsZero() && !epoch.Is(known.Epoch) || known.LastSeen > s.now()+store.Instant(time.Second.Microseconds()) {
			return &store.ForgotError{Epoch: epoch}
		}
		for i := range batches {
			b := &batches[i]
			stack, calls := b.Stack.Clone(), slices.Clone(b.Calls)
			for j := range calls {
				calls[j].Costs, calls[j].Held = slices.Clone(calls[j].Costs), slices.Clone(calls[j].Held)
			}
			a := write(s, func(m *memstore.Store) (a answer[[]store.Grant]) {
				a.is = make([]store.Grant, len(calls))
				if a.err = m.Reserve(ctx, stack, calls, a.is); a.err == nil {
					s.countAll(&stack, calls, a.is)
				}
				return a
			})
			if a.err != nil {
				return a.err
			}
			copy(b.Grants, a.is)
		}
		return nil
	})
}

// countAll keeps count of what reserving changes.
func (s *Store) countAll(stack *store.Stack, calls []store.Call, grants []store.Grant) {
	for i := range calls {
		s.count(stack, calls[i].Held, -1)
	}
	for i := range grants {
		if grants[i].OK {
			s.count(stack, grants[i].Charges, 1)
		}
	}
}

// count keeps count of what windows hold.
func (s *Store) count(stack *store.Stack, charges []store.Charge, sign int64) {
	for i, c := range charges {
		if stack.Limits[i].Spec.Algorithm == specs.Window {
			s.counts[count{stack.Limits[i].Key(), c.From}] += sign * c.To
		}
	}
}

// Cancel implements [store.Store].
func (s *Store) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	return s.CancelAll(ctx, []store.Batch{{Stack: stack, Grants: grants}})
}

// CancelAll implements [store.Bulk].
func (s *Store) CancelAll(ctx context.Context, batches []store.Batch) error {
	return s.operate(ctx, frees, func() (err error) {
		for i := range batches {
			stack, grants := batches[i].Stack.Clone(), slices.Clone(batches[i].Grants)
			for j := range grants {
				grants[j].Charges = slices.Clone(grants[j].Charges)
			}
			err = cmp.Or(err, write(s, func(m *memstore.Store) error {
				for j := range grants {
					s.count(&stack, grants[j].Charges, -1)
				}
				return m.Cancel(ctx, stack, grants)
			}))
		}
		return err
	})
}

// Report implements [store.Store].
func (s *Store) Report(ctx context.Context, stack store.Stack, notes []store.Note) (now store.Instant, changed int, err error) {
	err = s.operate(ctx, writes, func() (err error) {
		if now = s.now(); s.repeated(stack.Once) {
			return nil
		}
		stack, notes := stack.Clone(), slices.Clone(notes)
		a := write(s, func(m *memstore.Store) (a answer[int]) {
			before, _ := m.Settings(ctx, stack.Upstream)
			_, a.is, a.err = m.Report(ctx, stack, notes)
			if after, _ := m.Settings(ctx, stack.Upstream); len(after.Allowances) > len(before.Allowances) {
				s.began.Resets++
				s.news = true
			}
			for i := range notes {
				if n := &notes[i]; n.Kind == store.NoteSettle && stack.Limits[n.Limit].Spec.Algorithm == specs.Window {
					s.counts[count{stack.Limits[n.Limit].Key(), n.Charge.From}] += n.Actual - n.Cost
				}
			}
			return a
		})
		for i := range notes {
			if notes[i].Kind == store.NoteReset || notes[i].Kind == store.NoteResume {
				s.began.Resets++
				s.news = true
			}
		}
		changed = a.is
		return a.err
	})
	return now, changed, err
}

// Status implements [store.Store].
func (s *Store) Status(ctx context.Context, stack store.Stack) (status store.StackStatus, err error) {
	err = s.operate(ctx, reads, func() (err error) {
		status, err = s.mem.Status(ctx, stack)
		return err
	})
	return status, err
}

// Pauses implements [store.Bulk].
func (s *Store) Pauses(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	return s.Status(ctx, stack)
}

// Settings implements [store.Settable].
func (s *Store) Settings(ctx context.Context, upstream string) (all *store.Settings, err error) {
	err = s.operate(ctx, reads, func() (err error) {
		all, err = s.mem.Settings(ctx, upstream)
		return err
	})
	return all, err
}

// Set implements [store.Settable].
func (s *Store) Set(ctx context.Context, upstream string, changes []store.Setting) (all *store.Settings, err error) {
	err = s.operate(ctx, writes, func() (err error) {
		changes := slices.Clone(changes)
		s.began.Resets++
		a := write(s, func(m *memstore.Store) (a answer[*store.Settings]) {
			a.is, a.err = m.Set(ctx, upstream, changes)
			return a
		})
		all = a.is
		return a.err
	})
	return all, err
}

// Redeem implements [store.Redeemer].
func (s *Store) Redeem(ctx context.Context, upstream string, all []store.Booking) (answers []store.Redemption, err error) {
	err = s.operate(ctx, writes, func() (err error) {
		all, current := slices.Clone(all), make([]bool, len(all))
		for i := range all {
			all[i].Limits, all[i].Refund = slices.Clone(all[i].Limits), slices.Clone(all[i].Refund)
			current[i] = all[i].Epoch.Began == s.began.Began
		}
		a := write(s, func(m *memstore.Store) (a answer[[]store.Redemption]) {
			all := slices.Clone(all)
			for i := range all {
				if current[i] {
					all[i].Epoch, _ = m.Epoch()
				}
			}
			if a.is, a.err = m.Redeem(ctx, upstream, all); a.err != nil {
				return a
			}
			for i := range all {
				if a.is[i].Result == store.BookingDone {
					s.count(&store.Stack{Limits: all[i].Limits}, all[i].Refund, -1)
				}
			}
			return a
		})
		answers = a.is
		return a.err
	})
	return answers, err
}

// Heartbeat implements [store.Shared].
func (s *Store) Heartbeat(ctx context.Context, upstream string, b store.Heartbeat) (m store.Membership, err error) {
	err = s.operate(ctx, writes, func() error {
		if late := b.Now.Sub(s.now()); late > time.Second {
			s.shift += late
		}
		now := s.now()
		if b.Until > now && b.Began == s.began.Began && s.alive[b.ID] < b.Until {
			s.began, s.news = store.Epoch{Began: now}, true // the last writes are lost
		}
		if s.news {
			s.news = false
			for _, l := range s.listeners {
				l.send(s.faults.Away/2, store.News{Changes: []store.Change{{Kind: store.EpochBegan, Now: now}}})
			}
		}
		id, until := b.ID, now.Add(b.TTL)
		write(s, func(*memstore.Store) bool {
			if s.alive[id] = until; until > now && !slices.Contains(s.came, id) {
				s.came = append(s.came, id)
			}
			return true
		})
		if b.Barrier > 0 && s.barrier <= now {
			s.barrier = now.Add(b.Barrier)
		}
		n := s.living()
		m = store.Membership{Now: now, Epoch: s.began, Alive: n, Rank: max(0, slices.Index(s.came, b.ID)), Barrier: s.barrier}
		for i := range b.Limits {
			h, err := s.holding(ctx, upstream, &b.Limits[i], now)
			if err != nil {
				return err
			}
			m.Holds = append(m.Holds, h)
		}
		return nil
	})
	return m, err
}

// holding returns what an account holds.
func (s *Store) holding(ctx context.Context, upstream string, l *store.Limit, now store.Instant) (h store.Holding, err error) {
	st, err := s.mem.Status(ctx, store.Stack{Upstream: upstream, Limits: []store.Limit{*l}})
	if err != nil {
		return h, err
	}
	is := &st.Limits[0]
	switch l.Spec.Algorithm {
	case specs.GCRA:
		h.Taken = max(0, is.Full.Sub(now))
	case specs.Concurrency:
		h.Permits, h.Until = max(0, l.Spec.Limit-is.Remaining), is.Full
	case specs.Allowance:
	case specs.Window:
		for k, n := range s.counts {
			if age := int64(now) - k.at; k.key == l.Key() && n > 0 && age < (l.Spec.Buckets+1)*l.Spec.Interval {
				h.Buckets = append(h.Buckets, store.Charge{From: k.at, To: n})
			}
		}
	}
	return h, nil
}

// Fault implements [store.Shared].
func (*Store) Fault(error) store.Fault { return store.Unreachable }

// Listen implements [store.Notifier].
func (s *Store) Listen(upstream string, receive func(store.News)) (stop func()) {
	l := &listener{upstream: upstream, receive: receive, turn: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
	l.attach(s)
	l.send(s.faults.Away, store.News{Missed: true})
	return func() {
		s.mu.Lock()
		s.listeners = slices.DeleteFunc(s.listeners, func(one *listener) bool { return one == l })
		detach := l.detach
		s.mu.Unlock()
		detach()
		l.turn <- struct{}{}
		l.stopped = true
		<-l.turn
	}
}

// A listener receives news, after half of a round trip.
type listener struct {
	upstream string
	receive  func(store.News)
	detach   func()

	turn    chan struct{} // taken to receive one after the other; what waits for a mutex holds up virtual time
	stopped bool
}

// attach listens to the accounts of a store, whose lock the caller holds.
func (l *listener) attach(s *Store) {
	if l.detach != nil {
		l.detach()
	}
	l.detach = s.mem.Listen(l.upstream, func(n store.News) { // mu is held
		if !s.faults.lost() && s.replayed == 0 {
			l.send(s.faults.Away/2, n)
		}
	})
}

func (l *listener) send(after time.Duration, n store.News) {
	time.AfterFunc(after, func() {
		l.turn <- struct{}{}
		defer func() { <-l.turn }()
		if !l.stopped {
			l.receive(n)
		}
	})
}
