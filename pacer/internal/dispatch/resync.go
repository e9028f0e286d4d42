package dispatch

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// localCalls are the calls of one stack that wait and whose slots this process granted locally, and the receipts of those slots, which identify
// them: a Call may serve as another one by the time it is looked at.
type localCalls struct {
	stack    store.Stack
	all      []*Call
	receipts []any
}

// maxMoved is how many calls of one stack are exchanged with one request: each has to look for a slot far away.
const maxMoved = 64

// resync gives up the slots that this process granted locally, for slots of the fleet, or for places in its queue. A call that cannot have
// one in time is refused: its own is one that others may get.
// Calls whose exchange is still to come sleep on, and may go.
func (s *Dispatcher) resync(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	var exchanging errgroup.Group
	exchanging.SetLimit(maxMoving)
	for _, local := range s.local(s.exchangeable) {
		exchanging.Go(func() error {
			n := min(maxMoved, max(1, maxCharges/max(1, len(local.stack.Limits))))
			for i := 0; i < len(local.all) && !s.IsClosed(); i += n {
				j := min(i+n, len(local.all))
				s.exchange(ctx, &local.stack, local.all[i:j], local.receipts[i:j])
			}
			return nil
		})
	}
	_ = exchanging.Wait()
}

// local returns the calls that wait and whose slots this process granted locally and are still to come, by their stacks, each in the order of their
// slots.
func (s *Dispatcher) local(exchangeable func(*store.Grant) bool) []*localCalls {
	s.lock()
	defer s.unlock()
	var all []*Call
	for c := range s.waiting {
		if c.state == reserved && c.moving == nil && exchangeable(&c.grant[0]) {
			c.caught = true // it must not serve as another call while it is looked at
			all = append(all, c)
		}
	}
	found := groups(inOrder(all))
	locals := make([]*localCalls, 0, len(found))
	for _, group := range found {
		local := &localCalls{stack: group[0].stack.Clone(), all: group}
		for _, c := range group {
			local.receipts = append(local.receipts, c.grant[0].Receipt)
		}
		locals = append(locals, local)
	}
	return locals
}

// exchange exchanges the slots of some calls of one stack.
func (s *Dispatcher) exchange(ctx context.Context, stack *store.Stack, all []*Call, receipts []any) {
	began := time.Now()
	var some []*Call
	var calls []store.Call
	s.lock()
	known := s.changes.Load()
	for i, c := range all {
		if c.state != reserved || c.moving != nil || c.grant[0].Receipt != receipts[i] || !s.exchangeable(&c.grant[0]) {
			continue // it has gone in the meantime
		}
		c.catch()
		some, calls = append(some, c), append(calls, c.asks(began, s.exchangeFrom(c, began)))
	}
	s.unlock()
	if len(some) == 0 {
		return
	}
	grants := make([]store.Grant, len(some))
	err := s.reserve(ctx, stack, calls, grants)
	var old []store.Grant
	s.lock()
	for i, c := range some {
		switch g := &grants[i]; {
		case err != nil || unreached(&calls[i], g):
		case g.OK || g.Queued:
			old = append(old, c.grant[0])
			c.grant[0], c.requested, c.known = *g, began, known
			s.granted(c)
		default:
			old = append(old, c.grant[0])
			c.grant[0] = *g
			s.end(c, s.notYetAt(c, began))
		}
		c.moved()
	}
	s.unlock()
	if len(old) > 0 {
		_ = s.Store.Cancel(ctx, *stack, old)
	}
}

// exchangeFrom returns from when on a call that holds a local slot may have one of the fleet. As a rule that is no earlier: others count on
// theirs, and may be about to go. A call in the window of a queue that a rate makes wait may have an earlier one, once the others have
// exchanged theirs, too: if every process kept to its turns, there would be too little room between them for the calls of others.
func (s *Dispatcher) exchangeFrom(c *Call, now time.Time) time.Time {
	slot := c.requested.Add(c.grant[0].Wait())
	soonest := now.Add(s.way.Reach())
	if c.notBefore.After(soonest) {
		soonest = c.notBefore
	}
	at := c.grant[0].Binds
	if c.queue == nil || at < 0 || at >= len(c.stack.Limits) || c.stack.Limits[at].Spec.Algorithm != policies.GCRA || slot.Before(soonest) {
		return slot
	}
	return soonest
}
