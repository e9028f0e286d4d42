package dispatch

import (
	"context"
	"slices"
	"strings"

	"github.com/headway-go/headway/pacer/store"
)

// maxMoving is how many calls give back what they have before those after them do: what they get is never where the later ones are, so the
// first calls of a long queue do not wait until all others have given theirs back.
const maxMoving = MaxBatch

// requeue gives back what caught calls have, and puts them back where they were in the queues of their stacks. So whatever they get lies
// behind a pause, in the order in which they came. If calls are to be further apart than before, or are bound anew, what the first get may
// be where the last are: then all give back (allFirst) before the first asks.
//
// A change that is lost on the way to a process costs a refusal, never a wrong wait: after a broken connection the process asks the store
// (see catchUp), and the next heartbeat brings what was resumed.
func (s *Dispatcher) requeue(ctx context.Context, caught []*Call, allFirst bool) {
	ctx = context.WithoutCancel(ctx)
	n := max(1, len(caught))
	if !allFirst && !s.anyStale(caught) {
		n = maxMoving
	}
	for some := range slices.Chunk(caught, n) {
		s.giveUpSlots(ctx, some)
		s.lock()
		for i, c := range slices.Backward(some) { // each goes before the last
			s.askAnew(c)
			c.grant[0].Ahead = int64(i)
			c.moved()
		}
		for _, c := range some {
			if c.inQueue() {
				s.look(c.queue)
			}
		}
		s.unlock()
	}
}

// requeueAlone is requeue for a caught call whose owner is in this goroutine, and may give up meanwhile.
func (s *Dispatcher) requeueAlone(ctx context.Context, c *Call) {
	if s.Direct { // it takes no time
		s.requeue(ctx, []*Call{c}, false)
		return
	}
	s.busy.Go(func() { s.requeue(ctx, []*Call{c}, false) })
}

// giveUpSlots gives back what caught calls have: slots, or positions in the store's queue. A slot that cannot be given back is lost, but the
// call must still ask again.
func (s *Dispatcher) giveUpSlots(ctx context.Context, caught []*Call) {
	var slots []*Call
	for _, c := range caught {
		if g := &c.grant[0]; g.OK {
			slots = append(slots, c)
		} else if g.Queued {
			s.leaveStoreQueue(c)
		}
	}
	all := groups(slots)
	old := make([]store.Batch, 0, len(all))
	for _, group := range all {
		b := store.Batch{Stack: group[0].stack}
		for _, c := range group {
			b.Grants = append(b.Grants, c.grant[0])
		}
		old = append(old, b)
	}
	s.cancelAll(ctx, old)
}

// anyStale reports whether one of some calls is.
func (s *Dispatcher) anyStale(all []*Call) bool {
	s.lock()
	defer s.unlock()
	return slices.ContainsFunc(all, (*Call).isStale)
}

// groups returns calls by their stacks, each group in the order of the whole.
func groups(all []*Call) [][]*Call {
	indices := make(map[string]int)
	var gs [][]*Call
	for _, c := range all {
		k := stackKey(&c.stack)
		i, found := indices[k]
		if !found {
			i = len(gs)
			indices[k], gs = i, append(gs, nil)
		}
		gs[i] = append(gs[i], c)
	}
	return gs
}

// stackKey returns a text that is the same for equal stacks.
func stackKey(stack *store.Stack) string {
	var b strings.Builder
	for i := range stack.Limits {
		b.WriteString(stack.Limits[i].Policy + "\n" + stack.Limits[i].Scope + "\n")
	}
	return b.String()
}
