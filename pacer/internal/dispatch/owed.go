package dispatch

import (
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A fair share is of what calls really cost, which is known when they are settled. So the next call of the flow counts as so much dearer,
// or cheaper. A flow's debt is forgotten with the process: it had its share by its own estimates.

// maxOwed bounds for how many flows a process remembers that.
const maxOwed = 1 << 14

// debts are what flows owe.
type debts map[flow]int64

// A flow is a tenant's share of a limit.
type flow struct {
	store.Key

	id int64
}

// flowOf returns the flow of a call in limit i; false if that has no fair shares.
func (c *Call) flowOf(i int) (flow, bool) {
	l := &c.stack.Limits[i]
	return flow{l.Key(), c.request[0].Flow}, l.Spec.Queue == specs.FairQueue && l.Spec.Algorithm == specs.GCRA
}

// owe notes that a call has cost so much more than it was charged, or less.
func (s *Dispatcher) owe(c *Call, i int, more int64) {
	f, fair := c.flowOf(i)
	if !fair {
		return
	}
	s.lock()
	defer s.unlock()
	if _, known := s.owed[f]; known || len(s.owed) < maxOwed {
		s.owed[f] += more
	}
}

// settleUp counts the extra cost of earlier calls of its flow for a call with its first request. A call costs one at least; the rest is
// left to the next one.
func (d debts) settleUp(c *Call) {
	r := &c.request[0]
	if r.Since != 0 || len(d) == 0 {
		return
	}
	for i := range c.stack.Limits {
		f, fair := c.flowOf(i)
		if owed := d[f]; fair && owed != 0 {
			if r.Owed == nil {
				r.Owed = make([]int64, len(c.stack.Limits))
			}
			r.Owed[i] = max(owed, 1-r.CostOf(i))
			if d[f] -= r.Owed[i]; d[f] == 0 {
				delete(d, f)
			}
		}
	}
}
