package dispatch

import (
	"context"
	"time"

	"github.com/headway-go/headway/policies/specs"
)

// resync gives up the slots that this process granted locally, for slots of the fleet, or for places in its queue. A call that cannot have
// one in time is refused: its own is one that others may get.
func (s *Dispatcher) resync(ctx context.Context) { s.requeue(ctx, s.catchLocal(), false) }

// catchLocal returns the calls that wait and whose slots this process granted locally and are still to come, caught, in the order of their slots.
func (s *Dispatcher) catchLocal() (caught []*Call) {
	s.lock()
	defer s.unlock()
	now := time.Now()
	for c := range s.waiting {
		if c.state == reserved && c.moving == nil && s.exchangeable(&c.grant[0]) {
			s.catchInPlace(c, now)
			caught = append(caught, c)
		}
	}
	return inOrder(caught)
}

// catchInPlace catches a call, and bounds the slot that it gets for a local one.
func (s *Dispatcher) catchInPlace(c *Call, now time.Time) {
	if slot := c.requested.Add(c.grant[0].Wait()); s.exchangeable(&c.grant[0]) && !s.mayBeSooner(c, slot, now) {
		c.notBefore = slot
	}
	c.catch()
}

// mayBeSooner reports whether a call that holds a local slot may have an earlier one of the fleet. As a rule it may not: others count on
// theirs, and may be about to go. A call in the window of a queue that a rate makes wait may, if its slot is far: if every process kept to its
// turns, there would be too little room between them for the calls of others.
func (s *Dispatcher) mayBeSooner(c *Call, slot, now time.Time) bool {
	l := c.limit(c.grant[0].Binds)
	return c.queue != nil && l != nil && l.Spec.Algorithm == specs.GCRA && slot.After(now.Add(s.way.Reach()))
}
