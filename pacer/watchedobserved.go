package pacer

import "time"

// asked reports a request to the store.
func (w *watched) asked(op string, calls int, began time.Time, err error) {
	if w.config.Requested == nil {
		return
	}
	if forgot(err) != nil {
		err = nil
	}
	w.config.Requested(op, calls, time.Since(began), err)
}

// fallsBack notes that the store is lost, and reports it.
func (w *watched) fallsBack(err error) {
	w.mu.Lock()
	w.fell = time.Now()
	processes := w.processes
	w.mu.Unlock()
	if w.config.Changed != nil {
		w.config.Changed(failoverChange{Lost: true, Processes: processes, Err: err})
	}
}

// isBack reports that the store is back.
func (w *watched) isBack() {
	w.mu.Lock()
	fell, processes := w.fell, w.processes
	w.mu.Unlock()
	if w.config.Changed != nil {
		w.config.Changed(failoverChange{Processes: processes, For: time.Since(fell)})
	}
}
