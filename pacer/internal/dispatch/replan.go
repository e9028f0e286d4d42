package dispatch

import (
	"context"
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
func (s *Dispatcher) lockBound(c *Call, generation func() int64) {
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
func (s *Dispatcher) replanned() int64 { return s.generation }

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
		caught, s.replanning = s.freeze()
	}
	moves := s.replanning
	s.unlock()
	if !moves {
		return
	}
	s.later(func() {
		s.requeue(context.Background(), caught, true)
		s.lock()
		s.thaws, s.replanning = true, false
		s.thaw()
		s.unlock()
		s.Replan(0) // what has changed meanwhile
	})
}

// freeze returns the stale calls that have slots or positions, caught, and whether any call is stale. If so, no queue makes requests until
// those have moved, and the requests under way are answered: see thaw. The caller holds mu.
func (s *Dispatcher) freeze() (caught []*Call, stale bool) {
	caught = s.catchAll((*Call).isStale)
	stale = len(caught) > 0
	for _, q := range s.queues.byStack {
		stale = stale || q.isStale()
	}
	if stale {
		s.frozen, s.thaws = true, false
	}
	return caught, stale
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
