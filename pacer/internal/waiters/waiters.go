package waiters

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
)

// Timeout bounds the store's operations that go on when the context of a call ends: giving slots back, and moving behind a pause.
const Timeout = 5 * time.Second

// A Config says whose calls wait, and for what.
type Config struct {
	Upstream string
	Store    store.Store  // charges the calls
	Given    store.Store  // the store below the Member, if there is one; otherwise the Store
	Member   store.Member // the Store, if it stands in front of a shared one; nil otherwise
	Direct   bool         // the Store answers in no time

	Jitter  time.Duration // by how much a call goes later than its slot, at most
	MaxLate time.Duration // how late after its slot and its slack a call may go

	Leases *leases.Leases // of the permits of calls in flight
	Meter  *usage.Meter   // counts what calls spend

	Events Events // nil if there are no hooks

	// Reread is called when what operators have set may have changed; nil if a Member looks after that.
	Reread func()
	// Reported is called with the names of limits of which others say that nothing is left, before that is heeded.
	Reported func(policies []string)
}

// Waiters are the calls of a process on their way to their slots. Everything about them is under one lock, which only methods of this
// type take. It is safe for concurrent use.
type Waiters struct {
	Config

	punctual bool // requests end in time by themselves

	made    time.Time      // a little earlier, so that no call waits since 0
	way     Way            // the round trip to the store
	clock   storeClock     // the store's
	news    subscription   // of what the store reports
	queued  atomic.Int64   // calls in all queues
	entered atomic.Int64   // calls that came
	changes atomic.Int64   // how often this process received changes; added to under mu
	closed  chan struct{}  // closed under mu
	busy    sync.WaitGroup // calls that wait, and goroutines that move them. What is added is added under mu, unless closed

	mu     sync.Mutex
	flying int64 // the cost of calls that went and are not answered, and whose answers will be reported
	queues queues
	looks  []*queue // that have changed, and whose first calls may have to ask: see look
	asks   asks

	arrival    store.Instant // of the last call that was bound anew
	declared   int64         // the generation of the policies that hold
	generation int64         // of those that hold for the calls that wait
	replanning bool          // the former are about to hold for them, too: see replan
	frozen     int           // what is to be over before queues ask: see freeze
	waiting    map[*Call]struct{}
	byID       map[int64]*Call // of them, those that may be in the store's queue
	// The last calls that were woken and are none of those: calls of other processes, or calls that are about to be queued.
	earlyWakes [64]int64
	earlyWake  int
	changed    map[store.Key]changed // what this process received of limits; of all of them, by the empty key
	todo       []func()              // see later
	doing      bool
}

// New returns Waiters with no calls. Its user closes it.
func New(c *Config) *Waiters {
	s := &Waiters{Config: *c, made: time.Now().Add(-1), closed: make(chan struct{}), queues: queues{seed: maphash.MakeSeed()}}
	s.asks.wire, s.asks.load, s.asks.over.L = make(map[uint64]bool), MaxBatch, &s.mu
	p, ok := c.Given.(store.Punctual)
	s.punctual = c.Member == nil || ok && p.Punctual()
	return s
}

// Closed returns a channel that Close closes.
func (s *Waiters) Closed() <-chan struct{} { return s.closed }

// IsClosed reports whether Close was called.
func (s *Waiters) IsClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// Close wakes all calls, which then give their slots back, and lets no other call wait. It does not wait for that: see Drain.
func (s *Waiters) Close() {
	s.lock()
	defer s.unlock()
	if !s.IsClosed() {
		close(s.closed)
	}
}

// Drain waits until no call waits, after Close, and stops listening to the store.
func (s *Waiters) Drain() {
	s.busy.Wait()
	s.lock()
	for s.asks.under > 0 {
		s.asks.over.Wait()
	}
	s.unlock()
	s.news.end()
}

// Queued returns how many calls wait in the queues of this process.
func (s *Waiters) Queued() int64 { return s.queued.Load() }

// Changes returns how often this process received changes.
func (s *Waiters) Changes() int64 { return s.changes.Load() }

// Echoes reports whether this process receives from its store what it reports itself.
func (s *Waiters) Echoes() bool {
	if s.Member != nil {
		return s.Member.Echoes()
	}
	_, ok := s.Store.(store.Notifier)
	return ok
}

// ReportPermits reports to the store which calls are done, or go on. Permits whose report is lost come back when their leases run out.
func (s *Waiters) ReportPermits(all []readings.Report, closed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout) // their own contexts may have ended
	defer cancel()
	to := s.Store
	if closed { // a closed member sends no more requests
		to = s.Given
	}
	for _, m := range all {
		_, _, _ = to.Report(ctx, store.Stack{Upstream: s.Upstream, Limits: m.Limits}, m.Notes)
	}
	if !closed { // else the caller may hold mu
		s.returned(all)
	}
}

// Waiting returns how many calls wait for each limit.
func (s *Waiters) Waiting() map[store.Key]int64 {
	all := make(map[store.Key]int64)
	add := func(limits []store.Limit, binds int, n int64) {
		if binds >= 0 && binds < len(limits) { // otherwise only NotBefore holds it
			all[limits[binds].Key()] += n
		}
	}
	s.lock()
	defer s.unlock()
	for c := range s.waiting {
		if c.since != 0 && !c.inQueue() { // otherwise it is about to wait, or counted below
			add(c.stack.Limits, c.waitsFor(), 1)
		}
	}
	for _, q := range s.queues.byStack {
		if q.length > 0 {
			add(q.limits, q.last.Binds, int64(q.length))
		}
	}
	return all
}

// enter has a call be among those that wait.
func (s *Waiters) enter(c *Call) {
	s.lockBound(c, s.replanned)
	defer s.unlock()
	if s.waiting == nil {
		s.waiting = make(map[*Call]struct{})
	}
	s.waiting[c] = struct{}{}
	if id := c.request[0].ID; id != 0 {
		s.nameByID(c)
		if s.wasWoken(c) {
			c.due = time.Now()
		}
	}
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
	}
	if q := c.queue; q != nil {
		s.passIdle(q)
	}
}

// nameByID has a call be found by its ID. The caller holds mu.
func (s *Waiters) nameByID(c *Call) {
	if s.byID == nil {
		s.byID = make(map[int64]*Call)
	}
	s.byID[c.request[0].ID] = c
}

// leave is the end of enter.
func (s *Waiters) leave(c *Call) {
	s.lock()
	defer s.unlock()
	delete(s.waiting, c)
	delete(s.byID, c.request[0].ID)
}

// later runs a function for waiters, after those that were passed to it before, in a goroutine that Drain waits for: a goroutine that
// brings news need not wait until thousands have moved. With a store in memory it takes no time, and runs at once.
func (s *Waiters) later(do func()) {
	s.lock()
	if s.Member == nil || s.IsClosed() {
		s.unlock()
		do()
		return
	}
	defer s.unlock()
	if s.todo = append(s.todo, do); s.doing {
		return
	}
	s.doing = true
	s.busy.Go(func() {
		for do := s.nextToDo(); do != nil; do = s.nextToDo() {
			do()
		}
	})
}

// nextToDo returns the next function to run; nil if there is none.
func (s *Waiters) nextToDo() func() {
	s.lock()
	defer s.unlock()
	if len(s.todo) == 0 {
		s.doing = false
		return nil
	}
	do := s.todo[0]
	s.todo = s.todo[1:]
	return do
}
