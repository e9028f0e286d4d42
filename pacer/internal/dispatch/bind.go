package dispatch

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

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

// rebind binds a call that has neither a slot nor a position anew, if it is stale. The caller holds mu.
func (s *Dispatcher) rebind(c *Call) {
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
func (s *Dispatcher) sinceArrival(c *Call) store.Instant {
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

// newID returns the ID of a call. IDs have one length, so that their order as numbers is that of their digits, and are exact in Lua.
func newID() int64 { return 1e14 + rand.Int64N(9e14) }

// nameByID has a call be found by its ID. The caller holds mu.
func (s *Dispatcher) nameByID(c *Call) {
	if s.byID == nil {
		s.byID = make(map[int64]*Call)
	}
	s.byID[c.request[0].ID] = c
}
