package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// Adopt gives c a slot that was taken away from another call, of this process or another one. The store was asked at requested whether it
// is still good, when the process knew of so many changes, and answered at g.Now. c waits for it like for any other slot, without jitter,
// but is refused if it has to move: behind a pause, say. permits is a call that has the permits which c needs: c has them from now on. It
// is nil if c needs none.
func (s *Dispatcher) Adopt(ctx context.Context, c *Call, r *Request, g *store.Grant, requested time.Time, known int64, permits *Call) {
	r.Call.MaxWait = 0 // it has its slot, gets no jitter, and no other slot will do
	s.prepare(ctx, c, r)
	c.requested, c.notBefore, c.known = requested, requested, known
	s.lock()
	defer s.unlock()
	c.grant[0] = *g
	if permits != nil {
		c.request[0].ID = permits.request[0].ID
		c.stack.Limits = slices.Concat(c.stack.Limits, permits.stack.Limits)
		c.grant[0].Charges = slices.Concat(c.grant[0].Charges, permits.grant[0].Charges)
		if c.request[0].Costs != nil {
			c.request[0].Costs = append(slices.Clip(c.request[0].Costs), slices.Repeat([]int64{permits.request[0].Cost}, len(permits.stack.Limits))...)
		}
		permits.state = givenBack
		s.dropLease(permits)
	}
	s.granted(c)
}
