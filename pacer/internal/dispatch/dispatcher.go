package dispatch

import (
	"context"
	"hash/maphash"
	"math"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// New returns Dispatcher with no calls. Its user closes it.
func New(c *Config) *Dispatcher {
	s := &Dispatcher{Config: *c, made: time.Now().Add(-1), closed: make(chan struct{})}
	s.moves = batch.New(1, func(all []func()) int { return min(1, len(all)) }, func(all []func()) { all[0]() })
	s.changed, s.owed, s.byID = make(knowledge), make(debts), make(map[int64]*Call)
	s.flying = make(map[int64]int64)
	s.waiting, s.queues.byStack = make(map[*Call]struct{}), make(map[uint64]*queue)
	s.queues.pools, s.queues.polls = make(map[*queue]struct{}), make(map[*queue]struct{})
	s.queues.seed = maphash.MakeSeed()
	s.asks.wire, s.asks.load, s.asks.over.L = make(map[uint64]bool), MaxBatch, &s.mu
	p, ok := c.Given.(store.Punctual)
	s.asks.punctual = c.Member == nil || ok && p.Punctual()
	s.Leases = leases.New(leases.Config{Report: s.reportPermits, Direct: s.Direct, PassOn: s.passOn})
	return s
}

// Begin starts to listen to the store, and reads the settings of operators.
func (s *Dispatcher) Begin() {
	s.Listen()
	s.Reread()
}

// Closed returns a channel that Close closes.
func (s *Dispatcher) Closed() <-chan struct{} { return s.closed }

// Close wakes all calls, which then give their slots back, and lets no other call wait. It does not wait for that: see Drain.
func (s *Dispatcher) Close() {
	s.lock()
	defer s.unlock()
	if !s.IsClosed() {
		close(s.closed)
	}
}

// Drain waits until no call waits, after Close, and stops listening to the store.
func (s *Dispatcher) Drain() {
	s.busy.Wait()
	s.moves.Wait()
	s.lock()
	for s.asks.under > 0 {
		s.asks.over.Wait()
	}
	s.unlock()
	if s.news.stop != nil { // it can no longer begin
		s.news.stop()
	}
}

// Queued returns how many calls wait in the queues of this process.
func (s *Dispatcher) Queued() int64 { return s.queued.Load() }

// Changes returns how often this process received changes.
func (s *Dispatcher) Changes() int64 { return s.changes.Load() }

// Flying returns the cost of calls that went and are not answered, and whose answers will be reported.
func (s *Dispatcher) Flying() int64 {
	s.lock()
	defer s.unlock()
	return s.flyingBefore(math.MaxInt64)
}

// flyingBefore returns the cost of those that were last bound before a generation. The caller holds mu.
func (s *Dispatcher) flyingBefore(generation int64) (cost int64) {
	for g, n := range s.flying {
		if g < generation {
			cost += n
		}
	}
	return cost
}

// Waiting returns how many calls wait for each limit.
func (s *Dispatcher) Waiting() map[store.Key]int64 {
	all := make(map[store.Key]int64)
	add := func(limits []store.Limit, binds int) {
		if binds >= 0 && binds < len(limits) { // otherwise only NotBefore holds it
			all[limits[binds].Key()]++
		}
	}
	s.lock()
	defer s.unlock()
	for c := range s.waiting {
		switch {
		case c.since == 0: // it is about to wait
		case c.inQueue():
			add(c.queue.limits, c.queue.last.Binds)
		default:
			add(c.stack.Limits, c.waitsFor())
		}
	}
	return all
}

// reportPermits reports to the store which calls are done, or go on. Permits whose report is lost come back when their leases run out.
func (s *Dispatcher) reportPermits(all []readings.Report, closed bool) {
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
