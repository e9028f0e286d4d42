package telemetry

import (
	"log/slog"
	"runtime/debug"
	"sync"
)

// A queue is the events of one set of hooks that are not delivered yet. A goroutine delivers them while there are some.
type queue struct {
	dropped func(n int64) // receives how many events were dropped; nil: nobody does

	mu      sync.Mutex
	waiting []func()
	lost    int64
	idle    chan struct{} // closed when everything is delivered; nil while nothing is
}

// add has a hook called later, unless too many wait.
func (q *queue) add(hook func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= MaxQueued {
		q.lost++
		return
	}
	q.waiting = append(q.waiting, hook)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.run()
	}
}

// untilIdle returns a channel that is closed when everything is delivered; nil if it is now.
func (q *queue) untilIdle() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.idle
}

// run calls hooks until there are no more to call.
func (q *queue) run() {
	ended := false
	defer func() {
		if !ended { // a hook ended its goroutine, as t.FailNow does: the next ones are called all the same
			go q.run()
		}
	}()
	for hook := q.next(); hook != nil; hook = q.next() {
		call(hook)
	}
	ended = true
}

// next returns the next hook to call; nil if there is none.
func (q *queue) next() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.lost; n > 0 && len(q.waiting) < MaxQueued {
		q.lost = 0
		if q.dropped != nil {
			return func() { q.dropped(n) }
		}
	}
	if len(q.waiting) == 0 {
		q.waiting = nil
		close(q.idle)
		q.idle = nil
		return nil
	}
	hook := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return hook
}

// call calls a hook, and logs it if it panics.
func call(hook func()) {
	defer func() {
		if v := recover(); v != nil {
			slog.Default().Error("pacer: a hook panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	hook()
}
