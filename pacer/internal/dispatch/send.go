package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

// lock takes mu.
func (s *Dispatcher) lock() { s.mu.Lock() }

// unlock releases mu, and has what waits and may be asked for asked for.
func (s *Dispatcher) unlock() {
	if len(s.asks.waiting)+len(s.looks) > 0 {
		s.unlockFor(nil)
		return
	}
	s.mu.Unlock()
}

// unlockFor is unlock for a goroutine that sends a request of its own, if its store answers in time by itself: see sendOwn. Other requests are
// sent by goroutines of their own, unless the store takes no time.
func (s *Dispatcher) unlockFor(isOwn func(*request) bool) (own *request) {
	s.admitAll()
	var direct []*request
	for r := s.nextRequest(); r != nil; r = s.nextRequest() {
		switch {
		case own == nil && isOwn != nil && s.punctual && isOwn(r):
			own = r
		case s.Direct:
			direct = append(direct, r)
		default:
			go s.sendOthers(r)
		}
	}
	s.mu.Unlock()
	for _, r := range direct {
		s.sendOthers(r)
	}
	return own
}

// sendOthers sends a request of calls whose owners are in other goroutines.
func (s *Dispatcher) sendOthers(r *request) { telemetry.Guard("a store", func() { s.sendOwn(r) }) }

// sendOwn sends a request, if it is not nil, and has what may be asked for then asked for.
func (s *Dispatcher) sendOwn(r *request) {
	if r == nil {
		return
	}
	defer func() {
		s.lock()
		s.unlock()
	}()
	s.send(r)
}

// admitAll is admit for all queues that have changed. It tries again when a queue says so. The caller holds mu.
func (s *Dispatcher) admitAll() {
	for _, q := range s.looks {
		q.changed = false
		switch d := s.admit(q); {
		case d == 0:
		case q.timer != nil:
			q.timer.Reset(d)
		default:
			q.timer = time.AfterFunc(d, func() {
				s.lock()
				defer s.unlock()
				s.look(q)
			})
		}
	}
	clear(s.looks)
	s.looks = s.looks[:0]
}

// send sends a request, and gives those who wait for it their answers. If the store panics, or a hook of its client, nobody must wait for it.
func (s *Dispatcher) send(r *request) {
	errs := slices.Repeat([]error{store.ErrUnreachable}, len(r.batches))
	defer func() {
		s.lock()
		defer s.mu.Unlock()
		s.answered(r, errs)
	}()
	ctx := s.unending(r.asks[0].ctx)
	for i := range r.batches {
		b := &r.batches[i]
		b.Grants = slices.Grow(b.Grants[:0], len(b.Calls))[:len(b.Calls)]
	}
	if s.Member != nil {
		errs = s.Member.ReserveEach(ctx, r.batches)
	} else {
		b := &r.batches[0]
		errs[0] = s.Store.Reserve(ctx, b.Stack, b.Calls, b.Grants)
	}
	s.tookSince(r.asks[0].began)
}

// reserve has the store decide about calls of one stack, and returns when it has. The end of the context does not cut that short: the
// store may have charged the calls already, and a charge whose answer is not read is lost.
func (s *Dispatcher) reserve(ctx context.Context, stack *store.Stack, calls []store.Call, grants []store.Grant) error {
	if s.Member == nil { // one that is not shared serves no other calls in the same request
		began := time.Now()
		err := s.Store.Reserve(s.unending(ctx), *stack, calls, grants)
		s.tookSince(began)
		return storeError(err)
	}
	a := &ask{ctx: ctx, stack: *stack, hash: stack.Hash(s.queues.seed), calls: calls, grants: grants, done: make(chan struct{}, 1)}
	s.lock()
	if s.IsClosed() {
		s.unlock()
		return storeError(store.ErrClosed)
	}
	s.asks.waiting = append(s.asks.waiting, a)
	isOwn := func(r *request) bool { return slices.ContainsFunc(r.asks, func(c carried) bool { return c.ask == a }) }
	s.sendOwn(s.unlockFor(isOwn)) //nolint:contextcheck // it has the values of the calls in it
	<-a.done
	return storeError(a.err)
}

// unending returns the context of a request: a direct store answers without blocking.
func (s *Dispatcher) unending(ctx context.Context) context.Context {
	if s.Direct {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// tookSince takes what an answer took.
func (s *Dispatcher) tookSince(began time.Time) {
	if !s.Direct {
		s.way.Took(time.Since(began))
	}
}

// lockSettled takes mu when no move is under way, because the slot is not known until then.
func (s *Dispatcher) lockSettled(c *Call) {
	for {
		s.lock()
		moved := c.moving
		if moved == nil {
			return
		}
		s.unlock()
		<-moved
	}
}

// later runs a function for calls that wait, after those that were passed to it before, in a goroutine that Drain waits for: a goroutine that
// brings news need not wait until thousands have moved. With a store in memory it takes no time, and runs at once.
func (s *Dispatcher) later(do func()) {
	s.lock()
	if s.Member == nil || s.IsClosed() {
		s.unlock()
		do()
		return
	}
	defer s.unlock()
	if s.todo = append(s.todo, do); s.doing {
		return
	}
	s.doing = true
	s.busy.Go(func() {
		for do := s.nextToDo(); do != nil; do = s.nextToDo() {
			do()
		}
	})
}

// nextToDo returns the next function to run; nil if there is none.
func (s *Dispatcher) nextToDo() func() {
	s.lock()
	defer s.unlock()
	if len(s.todo) == 0 {
		s.doing = false
		return nil
	}
	do := s.todo[0]
	s.todo = s.todo[1:]
	return do
}
