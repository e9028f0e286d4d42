package waiters

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// The policies of a Pacer may change while calls wait. Then each of them is bound anew. A call whose limits are the same is left alone. Of
// the others, those that hold slots give them back and reserve again, in the order of their slots, and the rest wait in the queues of their
// new stacks, in the order in which they came. Until the first have their new slots, no call of their queues asks, so that nobody overtakes
// them. A call that the new policies cannot bind, because it lacks a scope, keeps the limits that it has. Changes that come meanwhile wait,
// and then count as one.

// A Binder binds a call to the policies that hold now.
type Binder interface {
	// Bind returns how the policies that hold now bind the call. It is called under no lock: it calls functions of the user.
	Bind() Bound
}

// Bound is how a call is bound anew.
type Bound struct {
	Request // what it requests now, in memory of its own; of the Generation alone if it is not OK

	OK   bool   // it can be bound
	Keep func() // has its Binder remember it; called under the lock of Waiters if the call is bound so
}

// isStale reports whether a call is to be bound anew, by other limits than it has. The caller holds mu.
func (c *Call) isStale() bool { return c.anew != nil }

// isOld reports whether it is not known yet how the policies of a generation bind a call. The caller holds mu.
func (c *Call) isOld(generation int64) bool { return c.generation < generation && c.binder != nil }

// anyStale reports whether one of some calls is.
func (s *Waiters) anyStale(all []*Call) bool {
	s.lock()
	defer s.unlock()
	return slices.ContainsFunc(all, (*Call).isStale)
}

// bindAnew finds out how the policies that hold now bind some old calls. It calls functions of users, under no lock.
func (s *Waiters) bindAnew(old []*Call, generation int64) {
	bound := make([]Bound, 0, len(old))
	for _, c := range old {
		bound = append(bound, c.binder.Bind())
	}
	s.lock()
	defer s.unlock()
	for i, c := range old {
		b := &bound[i]
		if b.Generation < c.generation {
			continue
		}
		c.generation, c.anew = max(b.Generation, generation), nil
		switch {
		case !b.OK:
		case c.bindsAlike(&b.Request):
			b.Keep()
		default:
			c.anew = b
		}
	}
}

// lockBound takes mu when it is known how the policies of a generation bind a call that only its owner knows, who is in this goroutine.
func (s *Waiters) lockBound(c *Call, generation func() int64) {
	for {
		s.lock()
		g := generation()
		if !c.isOld(g) || s.IsClosed() {
			return
		}
		s.unlock()
		s.bindAnew([]*Call{c}, g)
	}
}

// replanned returns the generation of the policies that hold for calls that wait. The caller holds mu.
func (s *Waiters) replanned() int64 { return s.generation }

// bindsAlike reports whether a request has the limits that a call has, and is queued alike. What it costs is as it was: an estimate may
// have been improved.
func (c *Call) bindsAlike(r *Request) bool {
	call, limits, anyOf := &c.request[0], c.stack.Limits, c.request[0].AnyOf
	if c.choices != nil {
		limits, anyOf = c.choices.limits, c.choices.anyOf
	}
	return alike(limits, r.Limits) && slices.EqualFunc(anyOf, r.Call.AnyOf, slices.Equal) && (call.ID != 0) == r.HasQueue &&
		call.Flow == r.Call.Flow && call.Weight == r.Call.Weight
}

// alike reports whether two stacks have the same limits, with the same numbers.
func alike(a, b []store.Limit) bool { return (&store.Stack{Limits: a}).Alike(&store.Stack{Limits: b}) }

// rebind binds a call that has neither a slot nor a position anew, if it is stale. The caller holds mu.
func (s *Waiters) rebind(c *Call) {
	r := c.anew
	if r == nil {
		return
	}
	c.anew = nil
	r.Keep()
	call := &c.request[0]
	c.stack.Limits, c.choices = r.Limits, nil
	call.AnyOf, call.First = r.Call.AnyOf, r.Call.First
	call.Cost, call.Costs, call.Flow, call.Weight = r.Call.Cost, r.Call.Costs, r.Call.Flow, r.Call.Weight
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
	s.lock()
	begins := !s.replanning && !s.IsClosed()
	s.declared, s.replanning = max(s.declared, generation), true
	s.unlock()
	if begins {
		s.replan()
	}
}

// replan has the latest change apply to the calls that wait, and those move that have other limits. Meanwhile it is true that replanning.
// It binds them in a goroutine that Drain does not wait for: a function of a user may block.
func (s *Waiters) replan() {
	if s.Member != nil {
		go s.replanNow()
		return
	}
	s.replanNow()
}

func (s *Waiters) replanNow() {
	s.lock()
	for all := s.old(); len(all) > 0; all = s.old() {
		generation := s.declared
		s.unlock()
		s.bindAnew(all, generation)
		s.lock()
	}
	var caught []*Call
	s.replanning = false
	if s.generation < s.declared && !s.IsClosed() {
		s.generation = s.declared
		caught, s.replanning = s.freeze()
	}
	moves := s.replanning
	s.unlock()
	if !moves {
		return
	}
	s.later(func() {
		s.requeue(context.Background(), inOrder(caught), true)
		s.lock()
		s.thaw()
		s.unlock()
		s.replan() // what has changed meanwhile
	})
}

// old returns the calls of which it is not known yet how the policies that hold now bind them. Others are known only to their owners. After
// Close there are none. The caller holds mu.
func (s *Waiters) old() (all []*Call) {
	add := func(c *Call) {
		if c.isOld(s.declared) && !s.IsClosed() {
			c.caught = true // it must not serve as another call meanwhile
			all = append(all, c)
		}
	}
	for c := range s.waiting {
		if c.state == reserved {
			add(c)
		}
	}
	for _, q := range s.queues.byStack {
		q.each(add)
	}
	return all
}

// freeze returns the stale calls that have slots or positions, caught, and whether any call is stale. If so, no queue asks until those have
// moved, and the requests under way are answered: see thaw. The caller holds mu.
func (s *Waiters) freeze() (caught []*Call, stale bool) {
	for c := range s.waiting {
		if c.state == reserved && c.moving == nil && c.isStale() {
			c.catch()
			caught = append(caught, c)
		}
	}
	stale = len(caught) > 0
	for _, q := range s.queues.byStack {
		stale = stale || q.isStale()
	}
	if !stale {
		return nil, false
	}
	s.frozen++
	for _, q := range s.queues.byStack {
		if len(q.carried) > 0 && !q.thaws {
			q.thaws = true
			s.frozen++
		}
	}
	return caught, true
}

// isStale reports whether a call in the queue is bound by other limits than the queue has, or is to be.
func (q *queue) isStale() (is bool) {
	q.each(func(c *Call) { is = is || c.isStale() || !alike(q.limits, c.stack.Limits) })
	return is
}

// thaw records that something is over that the queues of this process have waited for, so that no call overtakes others: that those gave their
// slots back that came before, or that a request was answered that was under way. After the last, stale calls wait in the queues of the stacks
// by which they are bound now, in the order in which they came, and all ask again. The caller holds mu.
func (s *Waiters) thaw() {
	if s.frozen--; s.frozen > 0 {
		return
	}
	var all []*Call
	for _, q := range s.queues.byStack {
		if !q.isStale() {
			s.look(q)
			continue
		}
		for q.head != nil {
			all = append(all, q.head)
			q.remove(q.head)
		}
		s.retire(q)
	}
	slices.SortFunc(all, func(a, b *Call) int { return cmp.Compare(a.came, b.came) })
	for _, c := range all {
		s.rebind(c)
		q := s.queueOf(c)
		q.insert(c)
		s.look(q)
	}
}

// unwanted reports whether a grant is a slot to come of policies that do not hold any more: it is given back, and the call waits on. The
// caller holds mu.
func (s *Waiters) unwanted(q *queue, c *Call, g *store.Grant) bool {
	if !c.isStale() || !g.OK || g.Wait() <= 0 {
		return false
	}
	old := store.Batch{Stack: store.Stack{Upstream: s.Upstream, Limits: slices.Clone(q.limits)}, Grants: []store.Grant{*g}}
	old.Grants[0].Charges = slices.Clone(g.Charges)
	s.busy.Go(func() { s.cancelAll(context.WithoutCancel(c.ctx), []store.Batch{old}) })
	return true
}

// retire has a queue serve only those that it has already: its limits do not hold any more. The caller holds mu.
func (s *Waiters) retire(q *queue) {
	delete(s.queues.byStack, q.hash)
	delete(s.queues.pools, q)
	if q.timer != nil {
		q.timer.Stop()
	}
	if s.IsClosed() {
		return // Leases.Close gives back what is idle, not under mu
	}
	for _, f := range q.idle {
		s.Leases.GiveBack(f)
	}
	q.idle = nil
}
