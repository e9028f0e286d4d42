package failover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// fallBack makes the state local, because of an error of an operation that began at an instant.
func (w *Store) fallBack(err error, began store.Instant) {
	w.failed(err)
	away := w.newAbsence(began)
	w.mu.Lock() // the process may be about to return
	was := w.state.Swap(local)
	if was == shared && forgot(err) == nil { // otherwise it answers what is under way
		close(w.gone)
		w.gone = make(chan struct{})
	}
	if was != local && !errors.Is(err, errAtBarrier) {
		w.standing.lost()
	}
	away.number = int(w.absences.Load())
	w.away.CompareAndSwap(nil, &away)
	w.mu.Unlock()
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

// wasReset reports whether an operation met an epoch that began on purpose, because something was reset, or that is known already, and heeds
// it.
func (w *Store) wasReset(ctx context.Context, epoch store.Epoch) (bool, error) {
	if before := w.knownEpoch(); epoch.Began != before.Began || epoch.Resets <= before.Resets {
		return epoch.Began == before.Began, nil
	}
	w.turning <- struct{}{}
	return w.heed(ctx, epoch)
}

// heed is wasReset for a caller that has filled turning, which heed empties. Memories must not undo a reset, so the process reads what was
// reset. Without an answer, this process stays in the epoch before. Calls that wait heed it, too: news of it may be lost.
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

// often is how soon after each other epochs begin of which a process expects one more.
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

// reportResumed has calls that wait heed what was reset, if the shared store decides about them.
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

// fellBack reports whether the answer to an operation makes the state local.
func (w *Store) fellBack(err error, began store.Instant) bool {
	if !errors.Is(err, store.ErrUnreachable) && forgot(err) == nil {
		return false
	}
	w.fallBack(err, began)
	return true
}

// newAbsence describes a time without the store that is noticed now, by an operation that began at an instant.
func (w *Store) newAbsence(began store.Instant) absence {
	found := w.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.standing
	a := absence{number: int(w.absences.Load()), processes: max(1, s.n, w.config.Processes), rank: s.rank, since: began, found: found}
	if a.counted = s.hasShare(time.Now()); !a.counted && w.config.Processes == 0 && w.config.Mode == Local {
		a.over = make(chan struct{})
	}
	return a
}

// absence returns the present time without the store; one that begins now if there is none.
func (w *Store) absence() absence {
	if a := w.away.Load(); a != nil {
		return *a
	}
	return w.newAbsence(w.Now())
}

// end lets the calls go on that wait because this process has no share: it needs none any more, or has one.
func (a *absence) end() {
	if a != nil && a.over != nil {
		close(a.over)
	}
}

// matures gives this process a share that had none when it lost the store, if it is there by heartbeats that were answered since.
func (w *Store) matures() {
	a := w.away.Load()
	if a == nil || a.over == nil {
		return
	}
	if next := w.newAbsence(a.since); next.over == nil && w.away.CompareAndSwap(a, &next) {
		a.end()
	}
}

// refused returns the error of a process that refuses calls while the store is out of reach.
func (w *Store) refused() error {
	err := store.ErrUnreachable
	if p := w.failure.Load(); p != nil && errors.Is(*p, store.ErrUnreachable) {
		err = *p
	}
	return err
}
