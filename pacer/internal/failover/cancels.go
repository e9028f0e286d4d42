package failover

import (
	"context"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/store"
)

// cancelTogether gives refunds back in one request, or owes them. It returns the error of each.
func (w *Store) cancelTogether(all []*batch.Refund) []error {
	began := w.Now()
	errs := make([]error, len(all))
	if w.state.Load() != together {
		for _, r := range all {
			w.owe(debt{limits: r.Stack.Limits, grants: r.Grants})
		}
		return errs
	}
	batches, places := w.cancels.Batches(all)
	failed := w.giveBack(all[0].Ctx, batches)
	for i, r := range all {
		if err := failed[places[i]]; w.parted(err, began) {
			w.owe(debt{limits: r.Stack.Limits, grants: r.Grants})
		} else {
			errs[i] = err
		}
	}
	return errs
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
