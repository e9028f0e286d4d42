package failover

import (
	"errors"
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

// end wakes the calls that wait because this process has no share: it has one now, or needs none.
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

// requested reports a request to the store.
func (w *Store) requested(op string, calls int, began time.Time, err error) {
	if forgot(err) != nil {
		err = nil
	}
	w.config.Owner.Requested(op, calls, time.Since(began), err)
}

// reportLoss notes that the store is lost, and reports it. That it was never there, and that calls wait, was reported before.
func (w *Store) reportLoss(err error) {
	w.mu.Lock()
	never := !w.lostSince.IsZero()
	if !never {
		w.lostSince = time.Now()
	}
	w.mu.Unlock()
	c, away := Change{Lost: true, Err: err}, w.absence()
	if away.over == nil {
		c.Processes = away.processes
	}
	if !never || away.over == nil {
		w.config.Owner.FailedOver(c)
	}
}

// reportNoContact reports, once, that the store has not answered yet.
func (w *Store) reportNoContact(err error) {
	c := &w.contact
	c.mu.Lock()
	already := c.reported
	c.reported = true
	c.mu.Unlock()
	if already {
		return
	}
	w.mu.Lock()
	w.lostSince = time.Now()
	w.mu.Unlock()
	w.config.Owner.FailedOver(Change{Lost: true, Never: true, Err: err})
}

// wasReported reports whether hooks know that there was no contact.
func (c *contact) wasReported() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reported
}

// reportReturn reports that the store is back.
func (w *Store) reportReturn() {
	w.mu.Lock()
	fell, processes := w.lostSince, w.standing.n
	w.lostSince = time.Time{}
	w.mu.Unlock()
	c := Change{Processes: processes, Dropped: w.local.droppedSince()}
	if !fell.IsZero() { // otherwise the loss is being reported just now
		c.For = time.Since(fell)
	}
	w.config.Owner.FailedOver(c)
}

// Absences returns how often this process was without the shared store.
func (w *Store) Absences() int {
	n := int(w.absences.Load()) - 2 // it joined once
	if w.state.Load() == local {
		n++
	}
	return n
}
