package failover

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/store"
)

// Send implements [batch.Sender].
func (w *Store) Send(ctx context.Context, r *batch.Request) {
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	era, told := w.era.Load(), store.Instant(w.told.Load())
	for i := range r.Batches {
		r.Batches[i].Stack.Epoch, r.Batches[i].Stack.LastSeen = era, told
	}
	began := time.Now()
	r.Errs = append(r.Errs, w.judge(r, w.store.ReserveAll(ctx, r.Batches)))
	if !r.Dropped() { // otherwise it was reported already that there was no answer
		w.asked("reserve", r.Calls, began, r.Errs[0])
	}
	if len(r.Batches) > 1 && r.Errs[0] != nil && w.unfit(r.Errs[0]) {
		// One of them is at fault, and the others shall not suffer from it.
		r.Errs = r.Errs[:0]
		for i := range r.Batches {
			r.Errs = append(r.Errs, w.judge(r, w.store.ReserveAll(ctx, r.Batches[i:i+1])))
		}
	}
	for i := range r.Batches {
		if i == len(r.Errs) {
			r.Errs = append(r.Errs, r.Errs[0])
		}
		if r.Errs[i] == nil {
			r.Errs[i] = w.received(&r.Batches[i])
		}
	}
}

// judge returns the error of a request as one of the Pacer's. If the store cannot be asked, it is not asked again soon.
func (w *Store) judge(r *batch.Request, err error) error {
	if !w.isFailure(err) {
		return err
	}
	if !r.Dropped() { // otherwise that is known already: the process may have come back meanwhile
		_ = w.trip(err)
	}
	return unreachable(err)
}

// trip notes that the store has failed. It reports whether that is news.
func (w *Store) trip(err error) bool {
	done, resting := w.breaker.Allow()
	if resting == nil {
		done(err)
	}
	return resting == nil
}

// Overdue implements [batch.Sender].
func (w *Store) Overdue(calls int) error {
	err := w.overdue()
	if calls > 0 && w.trip(err) {
		w.asked("reserve", calls, time.Now().Add(-w.timeout), err)
	}
	return err
}

// GiveBack implements [batch.Sender]. In another era there is nothing to give back.
func (w *Store) GiveBack(stack *store.Stack, grants []store.Grant) {
	if stack.Epoch == 0 || stack.Epoch == w.era.Load() {
		w.cancels.Add(batch.Refunds(context.Background(), stack, grants))
	}
}

// received remembers what a store granted. It returns a ForgotError if that shows that the store has lost something.
func (w *Store) received(b *store.Batch) error {
	if w.known.lost(&b.Stack, b.Grants) {
		ctx, cancel := context.WithTimeout(context.Background(), w.timeout)
		defer cancel()
		b.Grants = slices.DeleteFunc(b.Grants, func(g store.Grant) bool { return !g.OK })
		_ = w.store.Cancel(ctx, b.Stack, b.Grants)
		return &store.ForgotError{}
	}
	w.known.granted(&b.Stack, b.Grants)
	for i := range b.Grants {
		if at := int64(b.Grants[i].At); b.Grants[i].OK && at > w.latest.Load() {
			w.latest.Store(at) // races do not matter: one of the late ones is enough
		}
	}
	if len(b.Grants) > 0 {
		w.heardNow(b.Grants[0].Now)
	}
	return nil
}
