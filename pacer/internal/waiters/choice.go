package waiters

import "github.com/headway-go/headway/pacer/store"

// A call may be bound by any one of some choices of limits, such as those of one of several credentials: see [store.Call].AnyOf. As long
// as it has no slot, all of them are its stack: so calls with the same choices share a queue, and each request for them carries all of
// their limits. When the store has granted it a slot, the limits of that choice are its stack, and so it concerns no other choice any more.
// When it gives the slot up for another one, it has all of its choices again.

// choices are what a call has besides the choice that binds it.
type choices struct {
	limits []store.Limit
	costs  []int64
	anyOf  [][]int
	chosen int
}

// narrow has the choice bind the call that it was granted. The caller holds mu, if another goroutine knows the call.
func (c *Call) narrow() {
	call, g := &c.request[0], &c.grant[0]
	if call.AnyOf == nil || !g.OK {
		return
	}
	c.choices = &choices{c.stack.Limits, call.Costs, call.AnyOf, g.Choice}
	chosen := call.AnyOf[g.Choice]
	limits, charges := make([]store.Limit, 0, len(chosen)), make([]store.Charge, 0, len(chosen))
	var costs []int64
	binds, waitsFor := min(g.Binds, store.BindsNothing), min(c.binding.binds, store.BindsNothing)
	for k, i := range chosen {
		limits, charges = append(limits, c.stack.Limits[i]), append(charges, g.Charges[i])
		if call.Costs != nil {
			costs = append(costs, call.Costs[i])
		}
		if g.Binds == i {
			binds = k
		}
		if int(c.binding.binds) == i {
			waitsFor = int32(k)
		}
	}
	c.stack.Limits, call.Costs, call.AnyOf = limits, costs, nil
	g.Charges, g.Binds, c.binding.binds = charges, binds, waitsFor
}

// widen gives a call that has no slot all of its choices again. The caller holds mu.
func (c *Call) widen() {
	w := c.choices
	if w == nil {
		return
	}
	call := &c.request[0]
	c.stack.Limits, call.Costs, call.AnyOf, c.choices = w.limits, w.costs, w.anyOf, nil
	c.binding = binding{binds: store.BindsNothing}
}

// Choice returns which of its choices binds the call; 0 for a call that has none, or no slot.
func (c *Call) Choice() int {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	if c.choices == nil {
		return 0
	}
	return c.choices.chosen
}
