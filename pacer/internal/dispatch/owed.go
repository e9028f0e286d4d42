package dispatch

import (
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Fair shares divide what calls really cost, which is known once they are settled. So the flow's next call counts as that much dearer or
// cheaper. A flow's debt ends with the process: until then, its share followed its own estimates.

// maxOwed bounds for how many flows a process remembers that.
const maxOwed = 1 << 14

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
	if _, known := s.owed[f]; !known && len(s.owed) >= maxOwed {
		return
	}
	if s.owed == nil {
		s.owed = make(map[flow]int64)
	}
	s.owed[f] += more
}

// settleUp adds the extra cost of the flow's earlier calls to a call with its first request. A call costs at least one; the next one takes
// the rest. The caller holds mu.
func (s *Dispatcher) settleUp(c *Call) {
	r := &c.request[0]
	if r.Since != 0 || len(s.owed) == 0 {
		return
	}
	for i := range c.stack.Limits {
		f, fair := c.flowOf(i)
		if owed := s.owed[f]; fair && owed != 0 {
			if r.Owed == nil {
				r.Owed = make([]int64, len(c.stack.Limits))
			}
			r.Owed[i] = max(owed, 1-r.CostOf(i))
			if s.owed[f] -= r.Owed[i]; s.owed[f] == 0 {
				delete(s.owed, f)
			}
		}
	}
}
