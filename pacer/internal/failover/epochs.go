package failover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// wasReset reports whether an operation met an epoch that began on purpose, because something was reset, or that is known already, and heeds
// it.
func (w *Store) wasReset(ctx context.Context, epoch store.Epoch) (bool, error) {
	if before := w.knownEpoch(); epoch.Began != before.Began || epoch.Resets <= before.Resets {
		return epoch.Began == before.Began, nil
	}
	w.turning <- struct{}{}
	return w.heed(ctx, epoch)
}

// heed is wasReset for a caller that has filled turning, which heed empties. It reads from the store what was reset, since its records must not
// bring that back. Without an answer, this process stays in the epoch before. Calls that wait heed it, too: news of it may be
// lost.
func (w *Store) heed(ctx context.Context, epoch store.Epoch) (bool, error) {
	defer w.reportResumed() // when the next one may turn
	defer func() { <-w.turning }()
	before := w.knownEpoch()
	if epoch.Began != before.Began || epoch.Resets != store.AnyResets && epoch.Resets <= before.Resets { // another operation has met it, too
		return epoch.Began == before.Began, nil
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
	w.mu.Lock()
	if now := time.Now(); epoch.Resets > before.Resets {
		w.changing, w.changed = now.Sub(w.changed) < often, now
	}
	w.resumed = append(w.resumed, resumed(resets, before, epoch, store.Instant(w.lastSeen.Load()))...)
	w.mu.Unlock()
	if all != nil {
		w.config.InForce.Read(all) // before the operation that met it goes on
	} else {
		w.doubtSettings()
	}
	return true, nil
}

// often: two epochs that begin within it make a process expect a third.
const often = time.Second

// isChanging reports whether epochs begin so often that the store would refuse most requests that name the last one.
func (w *Store) isChanging() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changing && time.Since(w.changed) < often
}

// resumed returns what resets between two epochs mean for calls that wait; if not all of them are listed, that everything was reset by now.
func resumed(resets []store.Reset, from, to store.Epoch, now store.Instant) (all []store.Change) {
	known := from.Resets
	for i := range resets {
		r := &resets[i]
		if r.Epoch.Began != from.Began || r.Epoch.Resets <= from.Resets || r.Epoch.Resets > to.Resets {
			continue
		}
		if !r.All {
			known++
		}
		for _, k := range slices.Concat(r.Keys, r.Resumed) {
			all = append(all, store.Change{Kind: store.Resumed, Policy: k.Policy, Scope: k.Scope, Now: r.Now})
		}
	}
	if known < to.Resets {
		all = append(all, store.Change{Kind: store.Resumed, Now: now})
	}
	return all
}

// reportResumed passes resets on to the calls that wait, if the shared store decides about them.
func (w *Store) reportResumed() {
	if w.state.Load() != shared {
		return
	}
	w.mu.Lock()
	all := w.resumed
	w.resumed = nil
	w.mu.Unlock()
	if len(all) > 0 {
		w.config.Owner.Resumed(all)
	}
}

// knownEpoch returns the epoch of the store's data, as far as this process knows; zero for none.
func (w *Store) knownEpoch() store.Epoch {
	if e := w.epoch.Load(); e != nil {
		return *e
	}
	return store.Epoch{}
}
