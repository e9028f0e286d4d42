package dispatch

import (
	"context"

	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

// cancelAll gives grants of several stacks back.
func (s *Dispatcher) cancelAll(ctx context.Context, batches []store.Batch) {
	ctx = context.WithoutCancel(ctx)
	if s.Member != nil {
		_ = s.Member.CancelAll(ctx, batches)
		return
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	for i := range batches {
		telemetry.Guard("a store", func() { _ = s.Store.Cancel(ctx, batches[i].Stack, batches[i].Grants) })
	}
}

// bounded returns a context that bounds an operation of a store that is not shared. It must not cut short an operation of a shared
// store: a request on the wire serves other callers, too.
func (s *Dispatcher) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Member != nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, Timeout)
}

// giveBack gives grants back of which no call knows.
func (s *Dispatcher) giveBack(ctx context.Context, stack store.Stack, grants []store.Grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
	defer cancel()
	_ = s.Store.Cancel(ctx, stack, grants) // what is not given back is lost, as of any call
}

// leaveStoreQueue gives up a position in the store's queue.
func (s *Dispatcher) leaveStoreQueue(c *Call) {
	var limits []store.Limit
	for _, l := range c.standing() {
		if l.Spec.HasQueue() {
			limits = append(limits, l)
		}
	}
	if len(limits) > 0 {
		s.Leases.Leave(c.request[0].ID, limits)
	}
}
