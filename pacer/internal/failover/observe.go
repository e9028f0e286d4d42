package failover

import "time"

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
