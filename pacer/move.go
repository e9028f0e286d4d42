package pacer

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/store"
)

const (
	// maxMoving is how many stacks of waiters move at the same time. Their requests are batched, so that few are on the wire.
	maxMoving = batch.MaxCalls
	// maxMoved is how many waiters of one stack move with one request: each has to look for a slot far away.
	maxMoved = 64
)

// later runs a function for waiters, after those that were passed to it before, in a goroutine that Close waits for:
// a goroutine that brings news need not wait until thousands have moved. With a store in memory it takes no time, and
// runs at once.
func (p *Pacer) later(do func()) {
	s := &p.waiters
	s.mu.Lock()
	if p.member == nil || p.isClosed() {
		s.mu.Unlock()
		do()
		return
	}
	defer s.mu.Unlock()
	if s.todo = append(s.todo, do); s.doing {
		return
	}
	s.doing = true
	p.waiting.Go(func() {
		for do := s.next(); do != nil; do = s.next() {
			do()
		}
	})
}

// next returns the next function to run; nil if there is none.
func (s *waiterSet) next() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.todo) == 0 {
		s.doing = false
		return nil
	}
	do := s.todo[0]
	s.todo = s.todo[1:]
	return do
}

// groups returns reservations by their stacks, each group in the order of the whole.
func groups(all []*Reservation) [][]*Reservation {
	places := make(map[string]int)
	var gs [][]*Reservation
	for _, r := range all {
		k := stackKey(&r.stack)
		i, found := places[k]
		if !found {
			i = len(gs)
			places[k], gs = i, append(gs, nil)
		}
		gs[i] = append(gs[i], r)
	}
	return gs
}

// move gives the slots of caught reservations back and reserves again, which puts them behind the pause in the order
// in which they come. It gives back all slots before it reserves the first again: no reservation takes what is left
// of another's slot.
//
// Every reservation that is made after a pause lies behind it, and what comes after a pause goes at the policies'
// pace. A change that is lost on the way to a process costs a refusal, never a wrong wait; after a broken connection
// the process asks the store: see catchUp.
func (p *Pacer) move(ctx context.Context, caught []*Reservation) {
	ctx = context.WithoutCancel(ctx)
	for len(caught) > 0 {
		all := groups(caught)
		old := make([]store.Batch, 0, len(all))
		for _, group := range all {
			b := store.Batch{Stack: group[0].stack}
			for _, r := range group {
				b.Grants = append(b.Grants, r.grant[0])
			}
			old = append(old, b)
		}
		// A slot that cannot be given back is lost, but the call must still move.
		p.cancelAll(ctx, old)
		var again []*Reservation
		var moving errgroup.Group
		moving.SetLimit(maxMoving)
		for _, group := range groups(caught) {
			moving.Go(func() error {
				for piece := range slices.Chunk(group, min(maxMoved, batch.PerRequest(&group[0].stack))) {
					more := p.reserveAgain(ctx, piece)
					p.waiters.mu.Lock()
					again = append(again, more...)
					p.waiters.mu.Unlock()
				}
				return nil
			})
		}
		_ = moving.Wait()
		caught = inOrder(again)
	}
}

// cancelAll gives grants of several stacks back.
func (p *Pacer) cancelAll(ctx context.Context, batches []store.Batch) {
	if p.member != nil {
		_ = p.member.CancelAll(ctx, batches)
		return
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	for i := range batches {
		_ = p.store.Cancel(ctx, batches[i].Stack, batches[i].Grants)
	}
}

// bounded returns a context that bounds an operation of a store that is not shared. It must not cut short an
// operation of a shared store: a request on the wire serves other callers, too.
func (p *Pacer) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.member != nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, storeTimeout)
}

// reserveAgain reserves for reservations of one stack that have given back their slots, and returns those that have
// to move once more, caught.
func (p *Pacer) reserveAgain(ctx context.Context, group []*Reservation) (again []*Reservation) {
	s := &p.waiters
	stack, asked := group[0].stack, time.Now()
	calls, grants := make([]store.Call, len(group)), make([]store.Grant, len(group))
	s.mu.Lock()
	for i, r := range group {
		delete(s.again, r) // the store knows what has changed until now
		calls[i] = r.call[0]
		calls[i].NotBefore = 0
		if !r.latest.IsZero() {
			calls[i].MaxWait = max(0, time.Until(r.latest))
		}
	}
	s.mu.Unlock()
	var err error
	if p.isClosed() {
		err = ErrClosed
	} else {
		ctx, cancel := p.bounded(ctx)
		defer cancel()
		err = p.store.Reserve(ctx, stack, calls, grants)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range group {
		if p.answered(r, &calls[i], &grants[i], asked, err); errors.Is(err, ErrClosed) {
			r.err = ErrClosed
		}
		r.moved()
		if _, changed := s.again[r]; changed && r.state == reserved && !r.grant[0].Queued {
			r.catch()
			again = append(again, r)
		}
	}
	return again
}

// moved wakes the owner of a reservation that is no longer moving. The caller holds pacer.waiters.mu.
func (r *Reservation) moved() {
	close(r.moving)
	r.moving = nil
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// exchange gives up the slots that this process granted locally, for slots of the fleet that are not earlier. A call
// that cannot have one in time keeps its own. Calls whose exchange is still to come sleep on, and may go.
func (p *Pacer) exchange(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	var exchanging errgroup.Group
	exchanging.SetLimit(maxMoving)
	for _, one := range p.waiters.local(p.exchangeable) {
		exchanging.Go(func() error {
			n := min(maxMoved, batch.PerRequest(&one.stack))
			for i := 0; i < len(one.all) && !p.isClosed(); i += n {
				j := min(i+n, len(one.all))
				p.exchangeSome(ctx, &one.stack, one.all[i:j], one.receipts[i:j])
			}
			return nil
		})
	}
	_ = exchanging.Wait()
}

// exchangeable reports whether a grant is to be exchanged.
func (p *Pacer) exchangeable(g *store.Grant) bool {
	e, ok := p.store.(store.Exchanger)
	return ok && e.Exchangeable(g)
}

func (p *Pacer) exchangeSome(ctx context.Context, stack *store.Stack, all []*Reservation, receipts []any) {
	asked := time.Now()
	var some []*Reservation
	var calls []store.Call
	p.waiters.mu.Lock()
	for i, r := range all {
		if r.state != reserved || r.moving != nil || r.grant[0].Receipt != receipts[i] || !p.exchangeable(&r.grant[0]) {
			continue // it has gone in the meantime
		}
		r.catch()
		c := r.call[0]
		c.NotBefore = max(0, time.Until(r.requested.Add(r.grant[0].Wait())))
		if !r.latest.IsZero() {
			c.MaxWait = max(0, time.Until(r.latest))
		}
		some, calls = append(some, r), append(calls, c)
	}
	p.waiters.mu.Unlock()
	if len(some) == 0 {
		return
	}
	grants := make([]store.Grant, len(some))
	err := p.store.Reserve(ctx, *stack, calls, grants)
	var old []store.Grant
	p.waiters.mu.Lock()
	for i, r := range some {
		if err == nil && grants[i].OK {
			old = append(old, r.grant[0])
			r.grant[0], r.requested = grants[i], asked
			p.granted(r)
		}
		r.moved()
	}
	p.waiters.mu.Unlock()
	if len(old) > 0 {
		_ = p.store.Cancel(ctx, *stack, old)
	}
}
