package dispatch

import (
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A call may be bound by any one of some choices of limits, such as those of one of several credentials: see [store.Call].AnyOf. As long
// as it has no slot, all of them are its stack: so calls with the same choices share a queue, and each request for them carries all of
// their limits. When the store has granted it a slot, the limits of that choice are its stack, and so it concerns no other choice any more.
// When it gives the slot up for another one, it has all of its choices again.
//
// If the limits count calls in flight, a call that waits for a permit stands in one queue of the store, of one choice, and has all of its
// choices whenever it polls. No permit of another choice stays idle meanwhile, as far as this process knows:
//
//   - A permit that is passed on goes to the first call, whichever choice that stands for: see passing.go.
//   - If one goes back to the store, and no call of this process stands in its queue, the first that stands in another one polls.
//   - If a call's choice is paused while it is queued, the call polls.
//
// Permits that other processes give back to an empty queue are found when the call polls for other reasons, within a second if it is among
// the first.

// narrow binds the call to the choice that it was granted. The caller holds mu, if another goroutine knows the call.
func (c *Call) narrow() {
	call, g := &c.request[0], &c.grant[0]
	if call.AnyOf == nil || !g.OK {
		return
	}
	c.choices = &choices{c.stack.Limits, call.Costs, call.AnyOf, call.Kept, g.Choice}
	chosen := call.AnyOf[g.Choice]
	limits, charges := make([]store.Limit, 0, len(chosen)), make([]store.Charge, 0, len(chosen))
	var costs []int64
	waitedFor, waitsFor := c.limit(int(c.binding.binds)), min(c.binding.binds, store.BindsNothing)
	binds := min(g.Binds, store.BindsNothing)
	for k, i := range chosen {
		limits, charges = append(limits, c.stack.Limits[i]), append(charges, g.Charges[i])
		if call.Costs != nil {
			costs = append(costs, call.Costs[i])
		}
		if g.Binds == i {
			binds = k
		}
		if waitedFor != nil && waitedFor.Policy == limits[k].Policy { // for another choice, perhaps
			waitsFor = int32(k)
		}
	}
	c.stack.Limits, call.Costs, call.AnyOf, call.Kept = limits, costs, nil, call.KeptOf(chosen)
	g.Charges, g.Binds, c.binding.binds = charges, binds, waitsFor
}

// widen gives a call that has no slot, or is about to give it back, all of its choices again. The caller holds mu.
func (c *Call) widen() {
	w := c.choices
	if w == nil {
		return
	}
	call := &c.request[0]
	c.stack.Limits, call.Costs, call.AnyOf, call.Kept, c.choices = w.limits, w.costs, w.anyOf, w.kept, nil
	if i := int(c.binding.binds); i >= 0 && i < len(w.anyOf[w.chosen]) {
		c.binding.binds = int32(w.anyOf[w.chosen][i]) //nolint:gosec // an index into a stack
	}
}

// widened returns the charges of a call's slot as those of all of its choices.
func (c *Call) widened() []store.Charge {
	w := c.choices
	if w == nil {
		return slices.Clone(c.grant[0].Charges)
	}
	all := make([]store.Charge, len(w.limits))
	for k, i := range w.anyOf[w.chosen] {
		all[i] = c.grant[0].Charges[k]
	}
	return all
}

// preferred returns which of equally good choices a polling call takes: the one that it has, or is queued for.
func (c *Call) preferred() int {
	if c.choices != nil {
		return c.choices.chosen
	}
	return c.grant[0].Choice
}

// choiceOf returns which of a call's choices has exactly the limits of some permits; 0 for a call without choices, all of whose permits they
// are, and −1 if none has.
func (c *Call) choiceOf(permits []store.Limit) int {
	anyOf := c.request[0].AnyOf
	if anyOf == nil {
		for i := range c.stack.Limits {
			if l := &c.stack.Limits[i]; l.Spec.Algorithm == specs.Concurrency &&
				!slices.ContainsFunc(permits, func(p store.Limit) bool { return p.Key() == l.Key() }) {
				return -1
			}
		}
		return 0
	}
	return slices.IndexFunc(anyOf, func(choice []int) bool {
		return slices.EqualFunc(choice, permits, func(i int, l store.Limit) bool { return c.stack.Limits[i].Key() == l.Key() })
	})
}

// mayStandFor reports whether a call may be queued in the store for a limit, by its index: for one only, if it has choices.
func (c *Call) mayStandFor(i int) bool {
	binds := c.grant[0].Binds
	return c.request[0].AnyOf == nil || c.limit(binds) == nil || i == binds
}

// standsFor reports whether a call that has choices is queued for one of some limits.
func (c *Call) standsFor(keys map[store.Key]bool) bool {
	if c.request[0].AnyOf == nil {
		return false
	}
	for i := range c.stack.Limits {
		if c.mayStandFor(i) && boundByAny(c.stack.Limits[i:i+1], keys) {
			return true
		}
	}
	return false
}

// standsBy reports whether a call that has choices is queued by one that has one of some limits.
func (c *Call) standsBy(keys map[store.Key]bool) bool {
	return slices.ContainsFunc(c.request[0].AnyOf, func(choice []int) bool {
		return slices.Contains(choice, c.grant[0].Binds) &&
			slices.ContainsFunc(choice, func(i int) bool { return keys[c.stack.Limits[i].Key()] })
	})
}

// giveUp returns the grant of a call, as the store made it, and gives the call all of its choices again. The caller holds mu.
func (c *Call) giveUp() store.Grant {
	g, w := c.grant[0], c.choices
	g.Charges = c.widened()
	if w != nil && g.Binds >= 0 {
		g.Binds = w.anyOf[w.chosen][g.Binds]
	}
	c.widen()
	return g
}

// whole returns the choices of a call, whether it has a slot or not.
func (c *Call) whole() choices {
	if c.choices != nil {
		return *c.choices
	}
	call := &c.request[0]
	return choices{limits: c.stack.Limits, costs: call.Costs, anyOf: call.AnyOf, kept: call.Kept}
}

// costsAs reports whether a call costs as much as another one of its queue, whichever of their choices bind them.
func (c *Call) costsAs(o *Call) bool {
	return c.request[0].Cost == o.request[0].Cost && slices.Equal(c.whole().costs, o.whole().costs)
}

// bindsAlike reports whether a request has the call's limits, and is queued in the same way. Its costs may differ: an estimate may have
// been improved since.
func (c *Call) bindsAlike(r *Request) bool {
	call, all := &c.request[0], c.whole()
	return alike(all.limits, r.Limits) && slices.EqualFunc(all.anyOf, r.Call.AnyOf, slices.Equal) && (call.ID != 0) == r.HasQueue &&
		all.kept == r.Call.Kept && call.Flow == r.Call.Flow && call.Weight == r.Call.Weight
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
	call.Cost, call.Costs, call.Kept, call.Flow, call.Weight = r.Call.Cost, r.Call.Costs, r.Call.Kept, r.Call.Flow, r.Call.Weight
	delete(s.byID, call.ID)
	call.ID, call.Reach, call.Slot, call.Held, call.Owed = 0, 0, 0, nil, nil
	if r.HasQueue {
		call.ID, call.Reach, call.Since = store.NewID(), s.way.Lead(), s.sinceArrival(c)
		s.nameByID(c)
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
