package failover

import (
	"context"
	"errors"

	"github.com/headway-go/headway/pacer/store"
)

// fallBack makes the state local, because of an error of an operation that began at an instant.
func (w *Store) fallBack(err error, began store.Instant) {
	w.failed(err)
	if w.lostAt.CompareAndSwap(0, int64(began)) {
		w.foundAt.Store(int64(w.Now()))
	}
	was := w.state.Swap(local)
	if was == shared {
		w.batch.Restart()
	}
	if was != local {
		w.reportLoss(err)
	}
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// failed remembers why the store is out of reach.
func (w *Store) failed(err error) {
	if !errors.Is(err, errResting) {
		w.failure.Store(&err)
	}
}

// forgot returns the error of a store that has forgotten; nil if it is another.
func forgot(err error) *store.ForgotError {
	f, _ := errors.AsType[*store.ForgotError](err)
	return f
}

// wasReset reports whether an operation met an epoch that began on purpose, because something was reset, and is to be done again. What is
// remembered must not bring that back, so the store is first asked what it was. Without an answer, this process stays in the epoch before.
func (w *Store) wasReset(ctx context.Context, epoch store.Epoch) (bool, error) {
	if before := w.knownEpoch(); epoch.Began != before.Began || epoch == before {
		return epoch == before, nil
	}
	w.turning <- struct{}{}
	defer func() { <-w.turning }()
	before := w.knownEpoch()
	if epoch.Began != before.Began || epoch == before { // another operation has met it, too
		return epoch == before, nil
	}
	all, err := w.Settings(ctx, w.config.Upstream)
	if err != nil && (errors.Is(err, store.ErrUnreachable) || ctx.Err() != nil) {
		return false, err
	}
	var resets []store.Reset
	if all != nil {
		resets = all.Resets
	}
	epoch = w.ledger.heed(resets, before, epoch)
	w.epoch.Store(&epoch)
	w.doubtSettings(all)
	return true, nil
}

// knownEpoch returns the epoch of the store's data, as far as this process knows; zero for none.
func (w *Store) knownEpoch() store.Epoch {
	if e := w.epoch.Load(); e != nil {
		return *e
	}
	return store.Epoch{}
}

// fellBack reports whether the answer to an operation makes the state local.
func (w *Store) fellBack(err error, began store.Instant) bool {
	if !errors.Is(err, store.ErrUnreachable) && forgot(err) == nil {
		return false
	}
	w.fallBack(err, began)
	return true
}

// absence describes the present time without the store.
func (w *Store) absence() absence {
	w.mu.Lock()
	defer w.mu.Unlock()
	return absence{number: int(w.absences.Load()), processes: w.processes, rank: w.rank, since: store.Instant(w.lostAt.Load()), found: store.Instant(w.foundAt.Load())}
}

// refused returns the error of a process that refuses calls while the store is out of reach.
func (w *Store) refused() error {
	err := store.ErrUnreachable
	if p := w.failure.Load(); p != nil && errors.Is(*p, store.ErrUnreachable) {
		err = *p
	}
	return err
}
