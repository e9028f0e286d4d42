package pacer

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Bounds of what hooks can do to others.
const (
	// maxUntold is how many events wait for one set of hooks. Further ones are dropped.
	maxUntold = 8192
	// closeWaits is for how long Close waits until hooks have been told.
	closeWaits = time.Second
)

// observers are the hooks of a Pacer; nil if there are none, which is all that a call has to look at.
type observers []*observer

// An observer tells one set of hooks, in order, in a goroutine that is there while there is something to tell.
type observer struct {
	hooks *Hooks

	mu      sync.Mutex
	untold  []func()
	dropped int64
	told    chan struct{} // closed when everything is told; nil while nobody tells
}

func newObservers(all []*Hooks) observers {
	if len(all) == 0 {
		return nil
	}
	os := make(observers, 0, len(all))
	for _, h := range all {
		os = append(os, &observer{hooks: h})
	}
	return os
}

// tell has a hook called later.
func (o *observer) tell(hook func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.untold) >= maxUntold {
		o.dropped++
		return
	}
	o.untold = append(o.untold, hook)
	if o.told == nil {
		o.told = make(chan struct{})
		go o.run()
	}
}

// run calls hooks until there are no more to call.
func (o *observer) run() {
	ended := false
	defer func() {
		if !ended { // a hook ended its goroutine, as t.FailNow does: the next ones are called all the same
			go o.run()
		}
	}()
	for hook := o.next(); hook != nil; hook = o.next() {
		o.call(hook)
	}
	ended = true
}

// next returns the next hook to call; nil if there is none.
func (o *observer) next() func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.dropped; n > 0 && len(o.untold) < maxUntold {
		o.dropped = 0
		if o.hooks.Dropped != nil {
			return func() { o.hooks.Dropped(n) }
		}
	}
	if len(o.untold) == 0 {
		o.untold = nil
		close(o.told)
		o.told = nil
		return nil
	}
	hook := o.untold[0]
	o.untold[0] = nil
	o.untold = o.untold[1:]
	return hook
}

func (o *observer) call(hook func()) {
	defer func() {
		if v := recover(); v != nil {
			slog.Default().Error("pacer: a hook panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	hook()
}

// close waits until everything is told, but not for long: a hook may hang.
func (os observers) close() {
	if len(os) == 0 {
		return
	}
	patience := time.NewTimer(closeWaits)
	defer patience.Stop()
	for _, o := range os {
		o.mu.Lock()
		told := o.told
		o.mu.Unlock()
		if told == nil {
			continue
		}
		select {
		case <-told:
		case <-patience.C:
			return
		}
	}
}

// hear reports whether a hook is set in some set of hooks.
func (os observers) hear(set func(*Hooks) bool) bool {
	for _, o := range os {
		if set(o.hooks) {
			return true
		}
	}
	return false
}

// tell has the hooks called that pick finds, each with an event.
func tell[E any](os observers, event E, pick func(*Hooks) func(E)) {
	for _, o := range os {
		if f := pick(o.hooks); f != nil {
			o.tell(func() { f(event) })
		}
	}
}

// tellCall is tell for hooks that get a call's context.
func tellCall[E any](ctx context.Context, os observers, event E, pick func(*Hooks) func(context.Context, E)) {
	for _, o := range os {
		if f := pick(o.hooks); f != nil {
			o.tell(func() { f(ctx, event) })
		}
	}
}
