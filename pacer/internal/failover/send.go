package failover

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/store"
)

// send sends all batches to the store in one request, fills in their grants, and sets the error of each. A batch with an error is not the
// caller's any more: the operation may last longer than this.
func (w *Store) send(ctx context.Context, batches []store.Batch, errs []error) {
	epoch, reported := w.knownEpoch(), store.Instant(w.lastSeen.Load())
	if w.heeded.Load() > 0 {
		epoch.Resets = store.AnyResets
	}
	for i := range batches {
		batches[i].Stack.Epoch, batches[i].Stack.LastSeen = epoch, reported
	}
	err := w.sendOnce(ctx, batches)
	for i := range batches {
		if errs[i] = err; len(batches) > 1 && err != nil && w.unfit(err) {
			errs[i] = w.sendOnce(ctx, batches[i:i+1]) // one of them is at fault, and the others shall not suffer from it
		}
	}
	if epoch.Resets == store.AnyResets { // what was reset is forgotten before anything is remembered
		w.turning <- struct{}{}
		<-w.turning
	}
	for i := range batches {
		if errs[i] == nil {
			errs[i] = w.received(&batches[i]) //nolint:contextcheck // what is given back must be, whether or not a caller waits
		}
	}
}

// sendOnce makes the request. If it is out of reach, no request goes there for a while.
func (w *Store) sendOnce(ctx context.Context, batches []store.Batch) error {
	calls := 0
	for i := range batches {
		calls += len(batches[i].Calls)
	}
	var err error
	turn := w.breaker.now()
	if w.punctual && w.state.Load() != unknown {
		err = w.inTime(ctx, opReserve, calls, func(ctx context.Context) error { return w.store.ReserveAll(ctx, batches) })
	} else {
		err = w.sendLate(ctx, calls, slices.Clone(batches))
	}
	if !w.isFailure(err) {
		return err
	}
	w.breaker.ended(turn, true)
	return unreachable(err)
}

// opReserve is the name of an operation that reserves.
const opReserve = "reserve"

// sendLate sends to a store that may answer when no call waits any more. It gives late grants back.
func (w *Store) sendLate(ctx context.Context, calls int, batches []store.Batch) error {
	var over atomic.Bool // a caller has the answer, or none waits for it any more
	var answer error
	err := w.within(ctx, opReserve, calls, func(ctx context.Context) error {
		if answer = w.store.ReserveAll(ctx, batches); !over.CompareAndSwap(false, true) && answer == nil {
			w.giveBackLate(batches) //nolint:contextcheck // nobody waits for that
		}
		return answer
	})
	if !over.CompareAndSwap(false, true) {
		return w.ofTheCall(answer)
	}
	return err
}

// giveBackLate gives back what nobody waits for any more. In data that is not that of the grants there is nothing to give back.
func (w *Store) giveBackLate(batches []store.Batch) {
	for i := range batches {
		if b := &batches[i]; b.Stack.Epoch.IsZero() || b.Stack.Epoch.Began == w.knownEpoch().Began {
			w.cancels.Send(context.Background(), batch.Refunds(&b.Stack, store.Granted(b.Grants))...)
		}
	}
}

// received remembers what a store granted. It returns a ForgotError if that shows that the store has lost something, and not that something
// was reset meanwhile.
func (w *Store) received(b *store.Batch) error {
	if b.Stack.Epoch.Resets != store.AnyResets && w.ledger.contradicts(&b.Stack, b.Grants) {
		ctx, cancel := context.WithTimeout(context.Background(), w.config.Timeout)
		defer cancel()
		_ = w.store.Cancel(ctx, b.Stack, store.Granted(b.Grants))
		w.contradicted.Store(true)
		return &store.ForgotError{}
	}
	w.ledger.granted(&b.Stack, b.Grants)
	for i := range b.Grants {
		if at := int64(b.Grants[i].At); b.Grants[i].OK && at > w.furthest.Load() {
			w.furthest.Store(at) // races do not matter: one of the late ones is enough
		}
	}
	if len(b.Grants) > 0 {
		w.observe(b.Grants[0].Now)
	}
	return nil
}

// sendCancels gives refunds back in one request. Grants that may not have been given back stay charged until they are past.
func (w *Store) sendCancels(all []*batch.Refund) {
	batches, places := batch.Batches(all)
	failed := w.giveBack(all[0].Ctx, batches)
	for i, r := range all {
		if r.Err = failed[places[i]]; errors.Is(r.Err, store.ErrUnreachable) {
			w.local.drop(&r.Value.Stack, r.Value.Grants)
			r.Err = nil
		}
	}
}

// giveBack gives grants back to the store, in one request, and returns the error of each batch. The batches must stay as they are: the
// operation may last longer than this.
func (w *Store) giveBack(ctx context.Context, batches []store.Batch) []error {
	began, errs := w.Now(), make([]error, len(batches))
	cancel := func(some []store.Batch) error {
		if w.state.Load() != shared {
			return errResting
		}
		send := func(ctx context.Context) error { return w.store.CancelAll(ctx, some) }
		err := w.reach(ctx, "cancel", send)
		if errors.Is(err, store.ErrClosed) { // the process has left the fleet, and not all calls have given their slots back
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.config.Timeout)
			defer cancel()
			err = guarded(ctx, send)
		}
		w.fellBack(err, began)
		return err
	}
	err := cancel(batches)
	for i := range batches {
		if errs[i] = err; len(batches) > 1 && err != nil && w.unfit(err) {
			errs[i] = cancel(batches[i : i+1]) // one of them is at fault, and the others shall not suffer from it
		}
	}
	return errs
}

// forgets removes grants from the process's memory before they are given back. Others may get them then, so this process must not report
// them to a store that has lost its data.
func (w *Store) forgets(stack *store.Stack, grants []store.Grant) {
	w.ledger.releasedAll(stack, grants)
	w.ledger.cancelled(stack, grants)
}
