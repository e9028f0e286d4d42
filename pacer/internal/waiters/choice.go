package waiters

import (
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// A call may be bound by any one of some choices of limits, such as those of one of several credentials: see [store.Call].AnyOf. As long
// as it has no slot, all of them are its stack: so calls with the same choices share a queue, and each request for them carries all of
// their limits. When the store has granted it a slot, the limits of that choice are its stack, and so it concerns no other choice any more.
// When it gives the slot up for another one, it has all of its choices again.
//
// If the limits count calls in flight, a call that waits for a permit stands in one queue of the store, of one choice, and has all of its
// choices whenever it asks again. So that no permit of another choice is idle meanwhile, as far as this process can tell:
//
//   - A permit that is passed on goes to the first call, whichever choice that stands for: see passing.go.
//   - If one goes back to the store, and no call of this process stands in its queue, the first that stands in another one asks again.
//   - If the choice by which a call stands is paused, the call asks again.
//
// Permits that other processes give back to an empty queue are found when the call asks again for other reasons, within a second if it is
// among the first.

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
	c.stack.Limits, call.Costs, call.AnyOf = limits, costs, nil
	g.Charges, g.Binds, c.binding.binds = charges, binds, waitsFor
}

// widen gives a call that has no slot, or is about to give it back, all of its choices again. The caller holds mu.
func (c *Call) widen() {
	w := c.choices
	if w == nil {
		return
	}
	call := &c.request[0]
	c.stack.Limits, call.Costs, call.AnyOf, c.choices = w.limits, w.costs, w.anyOf, nil
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

// preferred returns which choice a call prefers that asks again, if others are as good: the one that it has, or stands for.
func (c *Call) preferred() int {
	if c.choices != nil {
		return c.choices.chosen
	}
	return c.grant[0].Choice
}

// Choice returns which of its choices binds the call; 0 for a call that has none, or no slot.
func (c *Call) Choice() int {
	c.set.lock()
	defer c.set.unlock()
	if c.choices == nil {
		return 0
	}
	return c.choices.chosen
}

// choiceOf returns which of a call's choices has exactly the limits of some permits; 0 for a call without choices, and −1 if none has.
func (c *Call) choiceOf(permits []store.Limit) int {
	anyOf := c.request[0].AnyOf
	if anyOf == nil {
		if len(permits) != len(c.stack.Limits) {
			return -1
		}
		return 0
	}
	return slices.IndexFunc(anyOf, func(choice []int) bool {
		return slices.EqualFunc(choice, permits, func(i int, l store.Limit) bool { return c.stack.Limits[i].Key() == l.Key() })
	})
}

// standing returns the limits for which a call is queued in the store, as far as that is known: one, if it has choices.
func (c *Call) standing() []store.Limit {
	if i := c.grant[0].Binds; c.request[0].AnyOf != nil && c.limit(i) != nil {
		return c.stack.Limits[i : i+1]
	}
	return c.stack.Limits
}

// standsFor reports whether a call that has choices is queued for one of some limits.
func (c *Call) standsFor(keys map[store.Key]bool) bool {
	return c.request[0].AnyOf != nil && slices.ContainsFunc(c.standing(), func(l store.Limit) bool { return keys[l.Key()] })
}

// standsBy reports whether a call that has choices is queued by one that has one of some limits.
func (c *Call) standsBy(keys map[store.Key]bool) bool {
	return slices.ContainsFunc(c.request[0].AnyOf, func(choice []int) bool {
		return slices.Contains(choice, c.grant[0].Binds) &&
			slices.ContainsFunc(choice, func(i int) bool { return keys[c.stack.Limits[i].Key()] })
	})
}

// returned has calls with choices ask again, because permits went back to the store: one for each permit for which no call of this process
// stands in the store's queue. The store wakes the calls that stand there.
func (s *Waiters) returned(all []readings.Report) {
	s.lock()
	defer s.unlock()
	for q := range s.queues.pools {
		for i := range all {
			for _, n := range all[i].Notes {
				if n.Kind == store.NoteRelease {
					s.retryFor(q, all[i].Limits[n.Limit].Key())
				}
			}
		}
	}
}

// retryFor has the first call of a queue ask again that stands for another limit than one that has a permit now, if no call stands for that.
// The caller holds mu.
func (s *Waiters) retryFor(q *queue, k store.Key) {
	key, now := map[store.Key]bool{k: true}, time.Now()
	if !slices.ContainsFunc(q.limits, func(l store.Limit) bool { return key[l.Key()] }) ||
		slices.ContainsFunc(q.out, func(c *Call) bool { return s.isQueued(c) && c.standsFor(key) }) {
		return
	}
	if i := slices.IndexFunc(q.out, func(c *Call) bool { return s.isQueued(c) && c.due.After(now) }); i >= 0 {
		s.retry(q.out[i])
	}
}
