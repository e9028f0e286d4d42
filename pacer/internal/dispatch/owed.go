package dispatch

import (
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Fair shares divide what calls really cost, which is known once they are settled, or of permits, for how long calls have them. So the flow's
// next call counts as that much dearer or cheaper. A flow's debt ends with the process: until then, its share followed its own estimates.

// maxOwed bounds for how many flows a process remembers that.
const maxOwed = 1 << 14

// For how long calls have permits, in microseconds: leastHeld is the least that counts. Of a flow that is not known, it is firstHeld. A call
// counts at most heldTimes as long as others of its flow, and firstHeld: its flow had no more than one permit at a time for it.
const (
	leastHeld = 1000
	firstHeld = 100_000
	heldTimes = 8
)

// A flow is a tenant's share of a limit.
type flow struct {
	store.Key

	id int64
}

// debts are what flows owe.
type debts map[flow]*debt

// A debt is what a flow owes.
type debt struct {
	more  int64 // what its calls cost more than they were charged
	usual int64 // of permits, for how long its calls have them
}

// flowOf returns the flow of some calls in a limit; false if that has no fair shares.
func flowOf(l *store.Limit, id int64) (flow, bool) {
	return flow{l.Key(), id}, l.Spec.Queue == specs.FairQueue
}

// of returns the debt of a flow to change. If too many are remembered, it forgets another one. The caller holds mu.
func (d debts) of(f flow) *debt {
	if d[f] != nil {
		return d[f]
	}
	for other := range d {
		if len(d) < maxOwed {
			break
		}
		delete(d, other)
	}
	d[f] = &debt{usual: firstHeld}
	return d[f]
}

// owe notes that a call has cost so much more than it was charged, or less.
func (s *Dispatcher) owe(c *Call, i int, more int64) {
	f, fair := flowOf(&c.stack.Limits[i], c.request[0].Flow)
	if !fair || c.stack.Limits[i].Spec.Algorithm != specs.GCRA {
		return
	}
	s.lock()
	defer s.unlock()
	s.owed.of(f).more += more
}

// oweHeld notes for how long a flow has had permits that go back to the store. The caller holds mu.
func (s *Dispatcher) oweHeld(l *leases.Lease, now time.Time) {
	if l.Passed.Flow == 0 {
		return
	}
	held := now.Sub(l.Passed.Since).Microseconds()
	for i := range l.Limits {
		f, fair := flowOf(&l.Limits[i], l.Passed.Flow)
		if !fair {
			continue
		}
		d := s.owed.of(f)
		counts := max(leastHeld, min(held, heldTimes*d.usual+firstHeld))
		if l.Passed.Assume > 0 {
			d.more += counts - l.Passed.Assume
		}
		d.usual += (counts - d.usual) / heldTimes
	}
}

// settleUp adds the extra cost of the flow's earlier calls to a call with its first request. A call costs at least one; the next one takes
// the rest. The caller holds mu.
func (d debts) settleUp(c *Call) {
	r := &c.request[0]
	if r.Since != 0 || r.Flow == 0 {
		return
	}
	for i := range c.stack.Limits {
		l := &c.stack.Limits[i]
		f, fair := flowOf(l, r.Flow)
		owed := d[f]
		if !fair || owed == nil {
			continue
		}
		if r.Owed == nil {
			r.Owed = make([]int64, len(c.stack.Limits))
		}
		if l.Spec.Algorithm == specs.Concurrency {
			c.assumed = owed.usual
			r.Owed[i] = max(leastHeld, owed.usual+owed.more)
			owed.more -= r.Owed[i] - owed.usual
			continue
		}
		r.Owed[i] = max(owed.more, 1-r.CostOf(i))
		if owed.more -= r.Owed[i]; owed.more == 0 {
			delete(d, f)
		}
	}
}

// takeBack is the opposite of settleUp, for a call that leaves the store's queue without what it was queued for. The caller holds mu.
func (d debts) takeBack(c *Call) {
	for i, n := range c.request[0].Owed {
		f, fair := flowOf(&c.stack.Limits[i], c.request[0].Flow)
		switch {
		case !fair || n == 0:
		case c.stack.Limits[i].Spec.Algorithm == specs.Concurrency:
			d.of(f).more += n - c.assumed
		default:
			d.of(f).more += n
		}
	}
}
