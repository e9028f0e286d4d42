package waiters

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// The policies of a Pacer may change while calls wait. Then each of them is bound anew: those that hold slots give them back and reserve
// again, in the order of their slots, and the others wait in the queues of their new stacks, in the order in which they came. Until those
// have their new slots nobody else asks, so that nobody overtakes them. A call that the new policies cannot bind, because it lacks a
// scope, keeps the limits that it has.

// A Binder binds a call to the policies that hold now.
type Binder interface {
	// Bind returns what the call requests now, in memory of its own, and whether that is possible. It is called under the lock of
	// Waiters.
	Bind() (r Request, ok bool)
}

// isStale reports whether a call was bound by policies that do not hold any more. The caller holds mu.
func (s *Waiters) isStale(c *Call) bool { return c.generation < s.generation && c.binder != nil }

// anyStale reports whether one of some calls was.
func (s *Waiters) anyStale(all []*Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(all, s.isStale)
}

// rebind binds a call that has neither a slot nor a position anew. The caller holds mu.
func (s *Waiters) rebind(c *Call) {
	if !s.isStale(c) {
		return
	}
	c.generation = s.generation
	r, ok := c.binder.Bind()
	if !ok {
		return
	}
	call := &c.request[0]
	s.Usage.Leave(&c.tracked, call)
	c.stack.Limits, c.choices = r.Limits, nil
	call.AnyOf, call.First = r.Call.AnyOf, r.Call.First
	call.Cost, call.Costs, call.Flow, call.Weight, call.Tracked = r.Call.Cost, r.Call.Costs, r.Call.Flow, r.Call.Weight, r.Call.Tracked
	delete(s.byID, call.ID)
	call.ID, call.Reach, call.Slot, call.Held = 0, 0, 0, nil
	if r.HasQueue {
		call.ID, call.Reach, call.Since = newID(), s.way.Lead(), s.sinceArrival(c)
		if _, waits := s.waiting[c]; waits {
			s.nameByID(c)
		}
	}
	c.grant[0].Binds, c.binding = store.BindsNothing, binding{binds: store.BindsNothing}
}

// sinceArrival returns when a call came, by the store's clock, which is its position in the store's queue: calls that are bound anew one
// after the other have different ones. The caller holds mu.
func (s *Waiters) sinceArrival(c *Call) store.Instant {
	if c.request[0].Since != 0 {
		return c.request[0].Since
	}
	now := time.Now()
	at := s.storeTime(now)
	if at == 0 {
		return 0 // nothing is known of its clock
	}
	s.arrival = max(s.arrival+1, at.Add(-now.Sub(c.arrived)))
	return s.arrival
}

// Begin has the Waiters listen to their store, and heed what operators have set.
func (s *Waiters) Begin() {
	s.Listen()
	s.Reread()
}

// Replan binds all calls that wait anew, because other policies hold from a generation on. It returns at once, if the store is shared.
func (s *Waiters) Replan(generation int64) {
	s.mu.Lock()
	if s.IsClosed() || generation <= s.generation {
		s.mu.Unlock()
		return
	}
	s.generation = generation
	s.frozen++
	for _, q := range s.queues.byStack {
		if q.asking && !q.deferred && !q.thaws && (q.head == nil || q.head.state != leads) { // a request is under way
			q.thaws = true
			s.frozen++
		}
	}
	var caught []*Call
	for c := range s.waiting {
		switch {
		case c.state != reserved || c.moving != nil || !s.isStale(c): // see outdated
		default:
			c.catch()
			caught = append(caught, c)
		}
	}
	s.mu.Unlock()
	s.later(func() {
		s.move(context.Background(), inOrder(caught), true)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.thaw()
	})
}

// release gives back what calls have that are bound anew, and are marked as moving: a position in the store's queue. It returns those
// that have slots. They leave their queues.
func (s *Waiters) release(caught []*Call) (slots []*Call) {
	for _, c := range caught {
		s.mu.Lock()
		stale, queued := s.isStale(c), c.grant[0].Queued
		if stale {
			s.leaveQueue(c)
		}
		s.mu.Unlock()
		switch {
		case !queued:
			slots = append(slots, c)
		case stale:
			s.leaveStoreQueue(c)
		}
	}
	return slots
}

// thaw records that something is over that calls in the queues of this process have waited for, so as not to overtake others: that those
// have moved that hold slots, or that a request was answered that was under way. After the last, they wait in the queues of the stacks by
// which they are bound now, in the order in which they came, and ask again. The caller holds mu.
func (s *Waiters) thaw() {
	if s.frozen--; s.frozen > 0 {
		return
	}
	var all []*entry
	queues := make([]*queue, 0, len(s.queues.byStack))
	for _, q := range s.queues.byStack {
		queues = append(queues, q)
	}
	for _, q := range queues {
		all = append(all, q.takeAll()...)
		s.retire(q)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.call.came, b.call.came) })
	for _, e := range all {
		s.enqueue(e)
	}
	for _, q := range s.queues.byStack {
		s.admit(q)
	}
}

// thawFor is thaw for a call that has led a request, in vain. The caller holds mu.
func (s *Waiters) thawFor(c *Call) {
	if c.thaws {
		c.thaws = false
		s.thaw()
	}
}

// unwanted reports whether a grant is a slot to come of policies that do not hold any more: it is given back, and the call waits on. The
// caller holds mu.
func (s *Waiters) unwanted(ctx context.Context, q *queue, c *Call, g *store.Grant) bool {
	if q.generation == s.generation || c.binder == nil || !g.OK || g.Wait() <= 0 {
		return false
	}
	old := store.Batch{Stack: store.Stack{Upstream: s.Upstream, Limits: slices.Clone(q.limits)}, Grants: []store.Grant{*g}}
	old.Grants[0].Charges = slices.Clone(g.Charges)
	s.busy.Go(func() { s.cancelAll(context.WithoutCancel(ctx), []store.Batch{old}) })
	return true
}

// takeAll takes those entries out of a queue that no request carries.
func (q *queue) takeAll() (all []*entry) {
	for e := q.head; e != nil; {
		next := e.next
		if e.state == leads && !q.deferred {
			q.asking = false
		}
		q.remove(e)
		e.state = queued
		all = append(all, e)
		e = next
	}
	return all
}

// retire has a queue serve only those that it has already, if it is of policies that do not hold any more. The caller holds mu.
func (s *Waiters) retire(q *queue) {
	if q.generation == s.generation || s.queues.byStack[q.hash] != q {
		return
	}
	delete(s.queues.byStack, q.hash)
	delete(s.queues.pools, q)
	if q.timer != nil {
		q.timer.Stop()
	}
	for _, f := range q.idle {
		s.Leases.GiveBack(f)
	}
	q.idle = nil
}

// enqueue has the call of an entry wait in the queue of its stack, at its place. The caller holds mu.
func (s *Waiters) enqueue(e *entry) {
	s.rebind(e.call)
	q := s.queueOf(e.call)
	if q == nil { // another stack has the same hash by chance: one of its own
		q = &queue{generation: s.generation, limits: e.call.stack.Limits, deferred: e.call.request[0].ID != 0}
		defer s.admit(q)
	}
	e.queue = q
	q.insert(e)
}

// insert adds an entry at its place, which is at one of the ends as a rule.
func (q *queue) insert(e *entry) {
	if q.tail == nil || q.tail.call.came < e.call.came {
		q.push(e)
		return
	}
	next := q.head
	for next.call.came < e.call.came {
		next = next.next
	}
	if next.prev == nil {
		q.pushFront(e)
		return
	}
	e.prev, e.next = next.prev, next
	next.prev.next, next.prev = e, e
	q.length++
}
