package dispatch

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// The slots of windows come in groups, and not at one distance: the time between the last ones is no estimate of the time to the next ones.
// So a call behind others is refused only if the limits cannot admit all of them any earlier, whatever was charged before. Only slots that
// are given back can make it earlier.

// alike reports whether two stacks have the same limits, with the same numbers.
func alike(a, b []store.Limit) bool { return (&store.Stack{Limits: a}).Alike(&store.Stack{Limits: b}) }

// hashOf returns the hash of calls that share a queue: those of one stack and one fair share whose costs are alike up to a factor of two.
// So a call of a high cost, which must wait longer, delays no other.
func (qs *queues) hashOf(c *Call) uint64 {
	all, call := c.whole(), &c.request[0]
	h := (&store.Stack{Limits: all.limits}).Hash(qs.seed)
	mix := func(n int64) { h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15 } //nolint:gosec // only equality matters
	mix(int64(bits.Len64(uint64(call.Cost))))                         //nolint:gosec // a cost is positive
	for _, cost := range all.costs {
		mix(int64(bits.Len64(uint64(cost)))) //nolint:gosec // as above
	}
	mix(int64(all.kept)) //nolint:gosec // as above
	mix(call.Flow)
	mix(call.Weight)
	return h
}

// queueOf returns the queue of a call's stack, and makes one if there is none. The caller holds mu.
func (s *Dispatcher) queueOf(c *Call) *queue {
	h := s.queues.hashOf(c)
	if q := s.queues.byStack[h]; q != nil && len(q.line) == 0 && !q.asking && !s.frozen && !alike(q.limits, c.stack.Limits) {
		s.retire(q)
	}
	q := s.queueFor(h, c.stack.Limits, c.request[0].ID != 0)
	if q.deferred && c.request[0].AnyOf != nil {
		s.queues.pools[q] = struct{}{}
		q.passes = q.passes && q.alone // otherwise the store may choose a slot by other permits
	}
	return q
}

// queueFor is queueOf for a hash and the limits of a stack, which the caller may reuse. If another stack has the same hash by chance, a
// stack has the next one. The caller holds mu.
func (s *Dispatcher) queueFor(h uint64, limits []store.Limit, deferred bool) *queue {
	qs := &s.queues
	q := qs.byStack[h]
	for ; q != nil && !(&store.Stack{Limits: q.limits}).Same(&store.Stack{Limits: limits}); q = qs.byStack[h] {
		h++
	}
	if q == nil {
		if len(qs.byStack) > 2*qs.swept+64 {
			s.sweepQueues()
		}
		q = &queue{all: &s.queued, hash: h, limits: slices.Clone(limits), deferral: deferral{deferred: deferred}}
		q.ask.queue, q.ask.stack = q, store.Stack{Upstream: s.Upstream, Limits: q.limits}
		q.ask.hash = q.ask.stack.Hash(qs.seed)
		q.passes, q.alone, q.inOrder = q.deferred && !s.Direct, q.deferred, q.deferred
		for i := range q.limits {
			l := &q.limits[i].Spec
			q.groups = q.groups || l.Algorithm == specs.Window || l.Most > 0
			q.inOrder = q.inOrder && l.Queue == specs.NoQueue
			isPermit := l.Algorithm == specs.Concurrency
			q.alone = q.alone && isPermit
			// No lease counts only from some age on, and the store does not decide which call has its turn for a slot. Calls of one queue have
			// the same share of permits.
			q.passes = q.passes && (isPermit && l.After == 0 || !isPermit && l.Queue == specs.NoQueue)
		}
		q.most = farthest(q.limits)
		qs.byStack[h] = q
	}
	return q
}

// sweepQueues removes the queues that no call needs. The caller holds mu.
func (s *Dispatcher) sweepQueues() {
	for h, q := range s.queues.byStack {
		if q.isIdle() {
			delete(s.queues.byStack, h)
			delete(s.queues.pools, q)
			delete(s.queues.polls, q)
		}
	}
	s.queues.swept = len(s.queues.byStack)
}

// rest has a queue without waiting calls and future slots forget the pace. It is kept for what it has allocated.
func (q *queue) rest() {
	if q.isIdle() {
		q.window, q.inStore, q.last, q.lastCost = Window{}, StoreQueue{}, store.Grant{}, 0
	}
}

// retire closes a queue to further calls, because its limits do not hold any more. It still serves the calls in it. The caller holds mu.
func (s *Dispatcher) retire(q *queue) {
	delete(s.queues.byStack, q.hash)
	delete(s.queues.pools, q)
	delete(s.queues.polls, q)
	if q.timer != nil {
		q.timer.Stop()
	}
	if s.IsClosed() {
		return // Leases.Close gives idle permits back, not under mu
	}
	for _, f := range q.idle {
		s.giveBackIdle(f, time.Now())
	}
	q.idle = nil
}

func (q *queue) isIdle() bool {
	return len(q.line) == 0 && !q.asking && len(q.out) == 0 && len(q.idle) == 0
}

// isStale reports whether a call in the queue is, or will be, bound by other limits than the queue has.
func (q *queue) isStale() (is bool) {
	q.each(func(c *Call) { is = is || c.isStale() || !alike(q.limits, c.stack.Limits) })
	return is
}

// furthest returns the furthest slot that is held.
func (q *queue) furthest() (at time.Time) {
	for _, c := range q.out {
		at = c.furthest(at)
	}
	return at
}

// furthest returns a time, or the slot of the call if it has one that is later. The caller holds mu.
func (c *Call) furthest(at time.Time) time.Time {
	if c.state == reserved && c.grant[0].OK {
		if slot := c.requested.Add(c.grant[0].Wait()); slot.After(at) {
			return slot
		}
	}
	return at
}

// takeOut moves a call out of the queue, for a slot or for the store's queue, where it polls for itself. If it comes back, because it was bound
// anew or gave up its position, its place is before the calls that came later.
func (q *queue) takeOut(c *Call) {
	c.queue, c.state, c.grant[0].Queued = q, reserved, false
	i, _ := slices.BinarySearchFunc(q.out, c, byArrival)
	q.out = slices.Insert(q.out, i, c)
}

// forget records that a call has no slot to come, nor waits in the store's queue, and reports whether it had left the queue.
func (q *queue) forget(c *Call) (out bool) {
	i := slices.Index(q.out, c)
	if i >= 0 {
		q.out = slices.Delete(q.out, i, i+1)
	}
	return i >= 0
}

// queuedInStore returns how many calls are in the store's queue.
func (q *queue) queuedInStore() (n int) {
	for _, c := range q.out {
		if c.state == reserved && c.grant[0].Queued {
			n++
		}
	}
	return n
}

// expectSooner forgets the expected time of the next slot: it may be sooner by now.
func (q *queue) expectSooner() { q.last.At, q.window.sleep, q.window.front = 0, 0, 0 }

// insert adds a call at its place, which is at one of the ends as a rule.
func (q *queue) insert(c *Call) {
	i := len(q.line)
	if i > 0 && q.line[i-1].came > c.came {
		i, _ = slices.BinarySearchFunc(q.line, c, byArrival)
	}
	q.line = slices.Insert(q.line, i, c)
	q.all.Add(1)
	c.queue, c.state = q, queued
}

// remove takes a call out that no request carries.
func (q *queue) remove(c *Call) {
	if i, _ := slices.BinarySearchFunc(q.line, c, byArrival); i == 0 && len(q.line) > 1 {
		q.line[0], q.line = nil, q.line[1:]
	} else {
		q.line = slices.Delete(q.line, i, i+1)
	}
	q.all.Add(-1)
	c.queue = nil
}

// byArrival orders calls by when they came.
func byArrival(a, b *Call) int { return cmp.Compare(a.came, b.came) }

// each calls a function for the calls of a queue that have no slot, those included that a request under way carries.
func (q *queue) each(do func(*Call)) {
	for _, c := range q.carried {
		do(c)
	}
	for _, c := range q.line {
		do(c)
	}
}

// look records that something has changed for a queue: whether its first calls make a request is decided before mu is released. The caller
// holds mu.
func (s *Dispatcher) look(q *queue) {
	if !q.changed {
		q.changed = true
		s.looks = append(s.looks, q)
	}
}
