package server

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

var (
	errClosed  = errors.New("the page is closed: the program that serves it is about to end")
	errCrowded = errors.New("too many look at this upstream already: close some of the pages")
)

// A feed polls one source while it has viewers, once for all.
type feed struct {
	source Source
	every  time.Duration
	page   *Handler
	wake   chan struct{} // of capacity 1: poll now, or see that nobody looks any more

	mu      sync.Mutex
	viewers map[*viewer]struct{}
	running bool // a poller is there; it ends by itself when nobody looks
	closed  bool
	last    *event // the last event of the running poller; nil if none yet
}

// A viewer gets the latest event, and misses those for which it is too slow.
type viewer struct {
	events chan *event // of capacity 1; closed when the page is
}

// An event is a message of the stream, encoded once.
type event struct {
	name string
	data []byte
}

// newEvent encodes an event.
func newEvent(name string, v any) *event {
	data, err := json.Marshal(v)
	if err != nil {
		name, data = "trouble", []byte(`{"error":"what is known cannot be written as JSON"}`)
	}
	return &event{name, data}
}

// join adds a viewer, and starts the poller for the first.
func (f *feed) join() (*viewer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, errClosed
	case len(f.viewers) >= maxViewers:
		return nil, errCrowded
	}
	v := &viewer{make(chan *event, 1)}
	f.viewers[v] = struct{}{}
	if f.last != nil {
		v.events <- f.last
	}
	if !f.running {
		f.running = true
		f.page.polls.Go(func() { f.run(f.page.life) })
	}
	return v, nil
}

// leave removes a viewer. The last one stops the poller.
func (f *feed) leave(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.viewers, v)
	if len(f.viewers) == 0 {
		f.poke()
	}
}

// refresh makes the poller, if there is one, poll now.
func (f *feed) refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.poke()
}

// poke wakes a running poller. The caller holds mu.
func (f *feed) poke() {
	if !f.running {
		return
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// close sends every viewer away.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for v := range f.viewers {
		close(v.events)
		delete(f.viewers, v)
	}
	f.poke()
}

// run polls the source and sends to the viewers, until there are none.
func (f *feed) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-f.wake:
		}
		if f.deserted() {
			return
		}
		f.publish(f.ask(ctx))
		timer.Reset(f.every)
	}
}

// deserted reports whether there is no viewer. Then the poller ends, and the next viewer starts one.
func (f *feed) deserted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.viewers) == 0 {
		f.running, f.last = false, nil
		select {
		case <-f.wake: // it was for this poller
		default:
		}
	}
	return !f.running
}

// ask polls the source once. It returns an error as an event.
func (f *feed) ask(ctx context.Context) *event {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	snapshot, err := f.source.Snapshot(ctx)
	if err != nil {
		return newEvent("trouble", trouble{Error: err.Error()})
	}
	return newEvent("fleet", snapshot)
}

// publish gives every viewer an event, in place of one that it has not taken.
func (f *feed) publish(e *event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = e
	for v := range f.viewers {
		select {
		case <-v.events:
		default:
		}
		v.events <- e
	}
}
