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

// unlock releases mu, and sends the requests that may go.
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
		case own == nil && isOwn != nil && s.asks.punctual && isOwn(r):
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

// admitAll is admit for all queues that have changed. It tries again when a queue needs it. The caller holds mu.
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

// sendOwn sends a request, if it is not nil, delivers the answers to the calls that wait for it, even if the store, or a hook of its client,
// panics, and sends the requests that may go then.
func (s *Dispatcher) sendOwn(r *request) {
	if r == nil {
		return
	}
	r.errs = r.errs[:0]
	defer func() {
		s.lock()
		defer s.unlock()
		s.answered(r)
	}()
	ctx := r.asks[0].ctx
	if !s.Direct {
		ctx = context.WithoutCancel(ctx)
		defer func() { s.way.Took(time.Since(r.began)) }()
	}
	for i := range r.batches {
		b := &r.batches[i]
		b.Grants = slices.Grow(b.Grants[:0], len(b.Calls))[:len(b.Calls)]
		r.errs = append(r.errs, store.ErrUnreachable) // if the store panics
	}
	if s.Member != nil {
		s.Member.ReserveEach(ctx, r.batches, r.errs)
	} else {
		b := &r.batches[0]
		r.errs[0] = s.Store.Reserve(ctx, b.Stack, b.Calls, b.Grants)
	}
}

// reserve waits for the store's decision about one call. The end of the context does not cut that short: the store may have charged the call
// already, and a charge whose answer is not read is lost.
func (s *Dispatcher) reserve(ctx context.Context, stack *store.Stack, calls []store.Call, grants []store.Grant, hasPermits bool) error {
	if s.Direct { // it answers without blocking
		return storeError(s.Store.Reserve(ctx, *stack, calls, grants))
	}
	a := &ask{ctx: ctx, hasPermits: hasPermits, stack: *stack, hash: stack.Hash(s.queues.seed), call: &calls[0], grant: &grants[0], done: make(chan struct{}, 1)}
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

// Sharing never adds a wait while there is little to request. A request serves many calls, so it does not end with one of them.

// Bounds of requests.
const (
	// maxRequests is how many requests of one process are under way.
	maxRequests = 4
	// If the store leaves some calls of a request undecided, the next requests carry as many as it decided, but no fewer than minCalls.
	minCalls = 16
	// maxCharges bounds the charges of accounts, and the different accounts, of one request, so that no run of the store's program takes longer
	// than two milliseconds: each of them takes Redis some microseconds.
	maxCharges = 256
)

// nextRequest returns the request that may go now; nil if there is none. The caller holds mu.
func (s *Dispatcher) nextRequest() *request {
	w := &s.asks
	if len(w.waiting) == 0 || s.Member != nil && w.under == maxRequests {
		return nil
	}
	var r *request
	if n := len(w.spare); n > 0 {
		r, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		r = &request{places: make(map[uint64]int)}
	}
	r.began = time.Now()
	kept := w.waiting[:0]
	for i, a := range w.waiting {
		n := s.sizeOf(a, r.began)
		if n == 0 {
			continue
		}
		if len(r.asks) > 0 && (s.Member == nil || r.calls+n > w.load || r.charges+n*len(a.stack.Limits) > maxCharges) {
			kept = append(kept, w.waiting[i:]...)
			break
		}
		isBusy := w.wire[a.hash] && !a.hasPermits && !slices.Contains(r.wired, a.hash)
		if at, found := r.places[a.hash]; isBusy || found && !r.batches[at].Stack.Alike(&a.stack) {
			kept = append(kept, a)
			continue
		}
		s.carry(r, a, n)
	}
	clear(w.waiting[len(kept):])
	if w.waiting = kept; len(r.asks) == 0 {
		w.spare = append(w.spare, r)
		return nil
	}
	w.under++
	return r
}

// sizeOf returns the number of calls of an ask; 0 if there is none: then its queue stops making requests. The caller holds mu.
func (s *Dispatcher) sizeOf(a *ask, now time.Time) int {
	q := a.queue
	switch {
	case q == nil:
		return 1
	case len(q.line) == 0 || s.frozen:
		q.asking = false
		q.rest()
		return 0
	}
	n, _ := s.askFor(q, now, len(q.line))
	return max(1, min(n, s.asks.load))
}

// carry adds an ask to a request. The request has copies of everything, because it may outlive the callers that wait for it. The caller
// holds mu.
func (s *Dispatcher) carry(r *request, a *ask, n int) {
	i, found := r.places[a.hash]
	if s.Member != nil && !a.hasPermits && !s.asks.wire[a.hash] {
		s.asks.wire[a.hash], r.wired = true, append(r.wired, a.hash)
	}
	if !found {
		i = len(r.batches)
		r.places[a.hash] = i
		if r.batches = r.batches[:min(i+1, cap(r.batches))]; len(r.batches) == i {
			r.batches = append(r.batches, store.Batch{})
		}
		b := &r.batches[i]
		b.Stack.Upstream, b.Stack.Limits, b.Calls = a.stack.Upstream, append(b.Stack.Limits[:0], a.stack.Limits...), b.Calls[:0]
		if i > 0 {
			r.charges += len(a.stack.Limits)
		}
	}
	b := &r.batches[i]
	from := len(b.Calls)
	if a.queue != nil {
		a.ctx = a.queue.line[0].ctx
		b.Calls = s.fill(a.queue, b.Calls, r.began, n)
	} else {
		b.Calls = append(b.Calls, *a.call)
	}
	for j := range b.Calls[from:] {
		b.Calls[from+j].Costs = slices.Clone(b.Calls[from+j].Costs)
	}
	r.asks = append(r.asks, carried{a, i, from, len(b.Calls)})
	r.calls, r.charges = r.calls+n, r.charges+n*len(a.stack.Limits)
}

// answered delivers the answers of a request to the calls that wait for it. Calls that the store left undecided are sent again. The caller
// holds mu.
func (s *Dispatcher) answered(r *request) {
	w := &s.asks
	w.under--
	w.over.Broadcast()
	for _, hash := range r.wired {
		delete(w.wire, hash)
	}
	var again []*ask
	decided, failed := 0, false
	for _, c := range r.asks {
		b, err := &r.batches[c.batch], r.errs[c.batch]
		grants := b.Grants[c.from:c.to]
		if n := slices.IndexFunc(grants, func(g store.Grant) bool { return g.Deferred }); err != nil {
			grants = nil
		} else if n >= 0 {
			grants = grants[:n]
		}
		decided, failed = decided+len(grants), failed || err != nil
		switch {
		case c.queue != nil:
			s.answerAll(c.queue, b.Calls[c.from:c.to], grants, r.began, err)
			continue
		case err != nil:
			c.err = err
		case len(grants) == 0:
			again = append(again, c.ask)
			continue
		default:
			set(c.grant, &grants[0])
		}
		c.done <- struct{}{}
	}
	w.waiting = slices.Insert(w.waiting, 0, again...)
	switch { // the next request has as many calls as the store decides
	case failed:
	case decided < r.calls:
		w.load = max(minCalls, decided)
	case decided >= w.load:
		w.load = min(MaxBatch, w.load+w.load/4)
	}
	if !w.punctual {
		return // the member may still use it
	}
	clear(r.places)
	clear(r.asks)
	r.asks, r.batches, r.wired, r.calls, r.charges = r.asks[:0], r.batches[:0], r.wired[:0], 0, 0
	w.spare = append(w.spare, r)
}
