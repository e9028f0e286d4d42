package waiters

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// localCalls are the waiters of one stack whose slots this process granted locally, and the receipts of those slots, which identify
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
func (s *Waiters) resync(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	var exchanging errgroup.Group
	exchanging.SetLimit(maxMoving)
	for _, local := range s.local(s.exchangeable) {
		exchanging.Go(func() error {
			n := min(maxMoved, batch.PerRequest(&local.stack))
			for i := 0; i < len(local.all) && !s.IsClosed(); i += n {
				j := min(i+n, len(local.all))
				s.exchange(ctx, &local.stack, local.all[i:j], local.receipts[i:j])
			}
			return nil
		})
	}
	_ = exchanging.Wait()
}

// exchangeable reports whether a grant is to be exchanged.
func (s *Waiters) exchangeable(g *store.Grant) bool {
	e, ok := s.Store.(store.Exchanger)
	return ok && e.Exchangeable(g)
}

// returnPause is how long a call sleeps that waits until this process has returned to its store.
const returnPause = 5 * time.Millisecond

// returning reports whether a call has a slot that it is not to use before this process has returned to its store.
func (s *Waiters) returning(c *Call) bool {
	e, ok := s.Store.(store.Exchanger)
	return ok && c.grant[0].Local && e.Returning(&c.grant[0])
}

// local returns the waiters whose slots this process granted locally and are still to come, by their stacks, each in the order of their
// slots.
func (s *Waiters) local(exchangeable func(*store.Grant) bool) []*localCalls {
	s.mu.Lock()
	defer s.mu.Unlock()
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
func (s *Waiters) exchange(ctx context.Context, stack *store.Stack, all []*Call, receipts []any) {
	began := time.Now()
	var some []*Call
	var calls []store.Call
	s.mu.Lock()
	known := s.changes.Load()
	for i, c := range all {
		if c.state != reserved || c.moving != nil || c.grant[0].Receipt != receipts[i] || !s.exchangeable(&c.grant[0]) {
			continue // it has gone in the meantime
		}
		c.catch()
		some, calls = append(some, c), append(calls, c.asks(began, s.exchangeFrom(c, began)))
	}
	s.mu.Unlock()
	if len(some) == 0 {
		return
	}
	grants := make([]store.Grant, len(some))
	err := s.Store.Reserve(ctx, *stack, calls, grants)
	var old []store.Grant
	s.mu.Lock()
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
	s.mu.Unlock()
	if len(old) > 0 {
		_ = s.Store.Cancel(ctx, *stack, old)
	}
}

// exchangeFrom returns from when on a call that holds a local slot may have one of the fleet. As a rule that is no earlier: others count on
// theirs, and may be about to go. A call in the window of a queue that a rate makes wait may have an earlier one, once the others have
// exchanged theirs, too: if every process kept to its turns, there would be too little room between them for the calls of others.
func (s *Waiters) exchangeFrom(c *Call, now time.Time) time.Time {
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
