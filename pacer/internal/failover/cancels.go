package failover

import (
	"context"
	"sync"

	"github.com/headway-go/headway/pacer/store"
)

// maxCharges is how many charges of accounts, and different accounts, are enough for one request, so that no run of the store's
// program takes longer than two milliseconds: each of them takes Redis some microseconds; a little more, if it is given back or
// lies far away.
const (
	maxCharges = 256
	maxRefunds = 128
)

// perRequest returns how many calls of a stack that move, or are given back, are enough for one request.
func PerRequest(s *store.Stack) int { return max(1, min(MaxCalls, maxRefunds/max(1, len(s.Limits)))) }

// cancels are the grants that wait to be given back.
type cancels struct {
	mu      sync.Mutex
	waiting []*refund
	sending bool           // a goroutine sends what waits
	closed  bool           // no more is taken
	pending sync.WaitGroup // refunds without an answer
}

// A refund is grants of one stack that are to be given back: no more than are enough for one request.
type refund struct {
	ctx    context.Context //nolint:containedctx // for its values
	stack  store.Stack
	grants []store.Grant
	answer chan error
}

// refunds returns grants of a stack in pieces. They are copies, for they may be sent when their owner has gone.
func refunds(ctx context.Context, stack *store.Stack, grants []store.Grant) []*refund {
	copied, all := stack.Clone(), copyGrants(grants)
	var pieces []*refund
	for n := PerRequest(stack); len(all) > 0; all = all[min(n, len(all)):] {
		pieces = append(pieces, &refund{ctx, copied, all[:min(n, len(all))], make(chan error, 1)})
	}
	return pieces
}

// next takes as many refunds as are enough for a request; nil if there are none.
func (c *cancels) next() []*refund {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, calls, charges := 0, 0, 0
	for ; n < len(c.waiting); n++ {
		r := c.waiting[n]
		more := len(r.grants) * len(r.stack.Limits)
		if n == 0 || !r.stack.Same(&c.waiting[n-1].stack) {
			more += len(r.stack.Limits)
		}
		if n > 0 && (calls+len(r.grants) > MaxCalls || charges+more > maxRefunds) {
			break
		}
		calls, charges = calls+len(r.grants), charges+more
	}
	all := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	if n == 0 {
		c.waiting, c.sending = nil, false
		return nil
	}
	return all
}

// close waits until what was to be given back is, and takes no more.
func (c *cancels) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.pending.Wait()
}

// begin has refunds sent, by one request at a time. Each of them is answered.
func (w *Store) begin(all []*refund) {
	if len(all) == 0 {
		return
	}
	c := &w.cancels
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		for _, r := range all {
			r.answer <- store.ErrClosed
		}
		return
	}
	c.pending.Add(len(all))
	c.waiting = append(c.waiting, all...)
	if !c.sending {
		c.sending = true
		go w.sendCancels()
	}
}

// giveBackAll gives refunds back, and returns when that is done, or owed to a store that is out of reach. It returns the first
// error that is neither.
func (w *Store) giveBackAll(all []*refund) (err error) {
	w.begin(all)
	for _, r := range all {
		if failed := <-r.answer; err == nil {
			err = failed
		}
	}
	return err
}

// sendCancels sends requests until nothing waits.
func (w *Store) sendCancels() {
	for {
		all := w.cancels.next()
		if all == nil {
			return
		}
		for i, err := range w.cancelTogether(all) {
			all[i].answer <- err
			w.cancels.pending.Done()
		}
	}
}

// cancelTogether gives refunds back in one request, or owes them. It returns the error of each.
func (w *Store) cancelTogether(all []*refund) []error {
	began := w.Now()
	errs := make([]error, len(all))
	if w.state.Load() != together {
		for _, r := range all {
			w.owe(debt{limits: r.stack.Limits, grants: r.grants})
		}
		return errs
	}
	batches, places := w.batches(all)
	failed := w.giveBack(all[0].ctx, batches)
	for i, r := range all {
		if err := failed[places[i]]; w.parted(err, began) {
			w.owe(debt{limits: r.stack.Limits, grants: r.grants})
		} else {
			errs[i] = err
		}
	}
	return errs
}

// batches returns the grants of refunds by their stacks, and for each refund the index of its batch.
func (w *Store) batches(all []*refund) (batches []store.Batch, places []int) {
	seen := make(map[uint64]int)
	for _, r := range all {
		hash := r.stack.Hash(w.seed)
		i, found := seen[hash]
		if !found || !batches[i].Stack.Same(&r.stack) {
			i = len(batches)
			seen[hash], batches = i, append(batches, store.Batch{Stack: r.stack})
		}
		batches[i].Grants = append(batches[i].Grants, r.grants...)
		places = append(places, i)
	}
	return batches, places
}

// giveBack gives grants back to the store, in one request, and returns the error of each batch. The batches must stay as they
// are: the operation may last longer than this.
func (w *Store) giveBack(ctx context.Context, batches []store.Batch) []error {
	for i := range batches {
		w.known.disownedAll(&batches[i])
	}
	cancel := func(some []store.Batch) error {
		err := w.reach(ctx, "cancel", func(ctx context.Context) error { return w.store.CancelAll(ctx, some) })
		for i := range some {
			if err == nil {
				w.known.cancelled(&some[i].Stack, some[i].Grants)
			}
		}
		return err
	}
	errs := make([]error, len(batches))
	err := cancel(batches)
	for i := range batches {
		if errs[i] = err; len(batches) > 1 && err != nil && w.unfit(err) {
			errs[i] = cancel(batches[i : i+1]) // one of them is at fault, and the others shall not suffer from it
		}
	}
	return errs
}
