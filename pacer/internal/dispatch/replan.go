package dispatch

import (
	"context"
	"slices"
	"time"
)

// bindAnew finds out how the policies that hold now bind some old calls. It calls functions of users, under no lock.
func (s *Dispatcher) bindAnew(old []*Call, generation int64) {
	bound := make([]Bound, 0, len(old))
	for _, c := range old {
		bound = append(bound, c.binder.Bind())
	}
	s.lock()
	defer s.unlock()
	for i, c := range old {
		b := &bound[i]
		if b.Generation < c.generation || c.state == used {
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

// lockBound takes mu when it is known how the policies bind a call whose owner is in this goroutine: those that hold for calls that wait, or,
// if its slot has come, the latest, which the answer may have brought.
func (s *Dispatcher) lockBound(c *Call) {
	for {
		s.lock()
		g := s.generation
		if !c.due.IsZero() && !time.Now().Before(c.due) {
			g = s.declared
		}
		if !c.isOld(g) || s.IsClosed() {
			return
		}
		s.unlock()
		s.bindAnew([]*Call{c}, g)
	}
}

// Replan binds all calls that wait anew, because other policies hold from a generation on. It returns at once, if the store is shared.
func (s *Dispatcher) Replan(generation int64) {
	s.lock()
	begins := !s.replanning && !s.IsClosed()
	s.declared, s.replanning = max(s.declared, generation), true
	s.unlock()
	switch {
	case !begins:
	case s.Member != nil:
		go s.replan() // Drain does not wait for it: a function of a user may block
	default:
		s.replan()
	}
}

// replan applies the latest change to the calls that wait, and moves those whose limits differ, until nothing has changed meanwhile.
func (s *Dispatcher) replan() {
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
		caught = s.catchAll((*Call).isStale)
		s.frozen = len(caught) > 0
		for _, q := range s.queues.byStack {
			s.frozen = s.frozen || q.isStale()
		}
		s.replanning = s.frozen
	}
	moves := s.replanning
	s.unlock()
	if !moves {
		return
	}
	s.later(func() {
		s.requeue(context.Background(), caught, true)
		s.thaw()
		s.Replan(0) // what has changed meanwhile
	})
}

// thaw ends the freeze: stale calls wait in the queues of their new stacks, in order of arrival, and all reserve again. Calls that a request
// under way carries come after its answer, if they have to wait on.
func (s *Dispatcher) thaw() {
	s.lock()
	defer s.unlock()
	s.frozen, s.replanning = false, false
	var all []*Call
	for _, q := range s.queues.byStack {
		if s.look(q); q.isStale() {
			all = append(all, q.line...)
			s.queued.Add(-int64(len(q.line)))
			q.line = nil
			s.retire(q)
		}
	}
	slices.SortFunc(all, byArrival)
	for _, c := range all {
		s.comeBack(c)
	}
}

// old returns the calls that are not bound yet by the policies that hold now. Others are known only to their owners. After Close there are
// none. The caller holds mu.
func (s *Dispatcher) old() (all []*Call) {
	for c := range s.waiting {
		if c.isOld(s.declared) && !s.IsClosed() {
			c.caught = true // it must not serve as another call meanwhile
			all = append(all, c)
		}
	}
	return all
}
