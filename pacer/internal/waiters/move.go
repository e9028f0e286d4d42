package waiters

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

const (
	// maxMoving is how many waiters move at the same time. Their requests are batched, so that few are on the wire.
	maxMoving = batch.MaxCalls
	// maxMoved is how many waiters of one stack move with one request: each has to look for a slot far away.
	maxMoved = 64
)

// move gives the slots of caught calls back and reserves again, which puts them behind the pause in the order in which they come. It does so
// for maxMoving calls after the other: what they get is never where the later ones are, so the first calls of a long queue do not wait
// until all others have moved. If calls are to be further apart than before, or are bound anew, what they get may be there: then all slots
// are given back (allFirst) before the first call reserves again, and no call takes what is left of another's slot.
//
// Every reservation that is made after a pause lies behind it, and what comes after a pause goes at the policies' pace. A change that is
// lost on the way to a process costs a refusal, never a wrong wait: after a broken connection the process asks the store (see catchUp), and
// the next heartbeat brings what was resumed.
func (s *Waiters) move(ctx context.Context, caught []*Call, allFirst bool) {
	ctx = context.WithoutCancel(ctx)
	for len(caught) > 0 {
		n := len(caught)
		if allFirst = allFirst || s.anyStale(caught); !allFirst {
			n = min(n, maxMoving)
		}
		var again []*Call
		for some := range slices.Chunk(caught, n) {
			again = append(again, s.moveTogether(ctx, some)...)
		}
		caught = inOrder(again)
	}
}

// moveTogether moves some calls, and returns those that have to move once more, caught.
func (s *Waiters) moveTogether(ctx context.Context, caught []*Call) (again []*Call) {
	s.giveUpSlots(ctx, caught)
	var moving errgroup.Group
	moving.SetLimit(maxMoving)
	for _, group := range groups(caught) {
		moving.Go(func() error {
			for piece := range slices.Chunk(group, min(maxMoved, batch.PerRequest(&group[0].stack))) {
				more := s.reserveAgain(ctx, piece)
				s.mu.Lock()
				again = append(again, more...)
				s.mu.Unlock()
			}
			return nil
		})
	}
	_ = moving.Wait()
	return again
}

// giveUpSlots gives back what caught calls have, and binds them anew. A slot that cannot be given back is lost, but the call must still
// move.
func (s *Waiters) giveUpSlots(ctx context.Context, caught []*Call) {
	all := groups(s.release(caught))
	old := make([]store.Batch, 0, len(all))
	for _, group := range all {
		b := store.Batch{Stack: group[0].stack}
		for _, c := range group {
			b.Grants = append(b.Grants, c.grant[0])
		}
		old = append(old, b)
	}
	s.cancelAll(ctx, old)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range caught {
		c.widen()
		s.rebind(c)
	}
}

// moveAlone moves a caught call whose owner is in this goroutine, and may give up before it has moved: see settleInTime.
func (s *Waiters) moveAlone(ctx context.Context, c *Call) {
	if s.Direct { // it takes no time
		s.move(ctx, []*Call{c}, false)
		return
	}
	s.busy.Go(func() { s.move(ctx, []*Call{c}, false) })
}

// cancelAll gives grants of several stacks back.
func (s *Waiters) cancelAll(ctx context.Context, batches []store.Batch) {
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
func (s *Waiters) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Member != nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, Timeout)
}

// reserveAgain reserves for calls of one stack that have given back their slots, and returns those that have to move once more, caught.
func (s *Waiters) reserveAgain(ctx context.Context, group []*Call) (again []*Call) {
	stack, began := group[0].stack, time.Now()
	calls, grants := make([]store.Call, len(group)), make([]store.Grant, len(group))
	s.mu.Lock()
	for i, c := range group {
		c.known = s.changes.Load()
		calls[i] = c.request[0]
		calls[i].NotBefore = max(0, time.Until(c.notBefore))
		if !c.latest.IsZero() {
			calls[i].MaxWait = max(0, time.Until(c.latest))
		}
	}
	s.mu.Unlock()
	var err error
	if s.IsClosed() {
		err = store.ErrClosed
	} else {
		ctx, cancel := s.bounded(ctx)
		defer cancel()
		err = store.ErrUnreachable
		telemetry.Guard("a store", func() { err = s.Store.Reserve(ctx, stack, calls, grants) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range group {
		if s.answer(c, &calls[i], &grants[i], began, err); errors.Is(err, store.ErrClosed) {
			c.err = store.ErrClosed
		}
		c.moved()
		if c.state == reserved && s.outdated(c, time.Now()) && (!c.grant[0].Queued || c.isStale()) {
			c.catch()
			again = append(again, c)
		}
	}
	return again
}

// answer applies the store's answer to a call that is moving. The caller holds mu.
func (s *Waiters) answer(c *Call, call *store.Call, grant *store.Grant, began time.Time, err error) {
	s.dropLease(c) // its permits were given back with its slot
	switch {
	case err != nil:
		c.state, c.err = givenBack, s.StoreError("reserve", err)
		s.leaveQueue(c)
	case unreached(call, grant):
		s.sleep(c, grant.Binds, grant.Now, began, grant.Wait()/2)
	case !grant.OK && !grant.Queued:
		s.leaveQueue(c)
		c.state, c.grant[0] = givenBack, *grant
		r := s.refusal(c)
		if r.Waited = c.request[0].MaxWait - call.MaxWait; r.MaxWait >= store.Forever {
			r.Waited = 0
		}
		c.err = s.NotYet(r)
	default:
		c.grant[0], c.requested = *grant, began
		s.granted(c)
		if c.queue != nil {
			s.admit(c.queue) // its slot may be nearer than it was
		}
	}
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
