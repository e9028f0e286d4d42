package telemetry

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// A Queue calls functions of a user, one at a time and in order, in a goroutine that exists only while some wait. Set Most, and Dropped if
// needed, before its first use.
type Queue struct {
	Most    int           // how many wait; further ones are dropped
	Dropped func(n int64) // receives how many were dropped; nil: nobody does

	mu      sync.Mutex
	waiting []func()
	lost    int64
	idle    chan struct{} // closed when everything is delivered; nil while nothing is
}

// Add calls a hook later, unless too many wait.
func (q *Queue) Add(hook func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= q.Most {
		q.lost++
		return
	}
	q.waiting = append(q.waiting, hook)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.run()
	}
}

// Wait waits until everything is delivered, or a timer fires, since a hook may hang. It reports whether everything is.
func (q *Queue) Wait(timeout <-chan time.Time) bool {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return true
	}
	select {
	case <-idle:
		return true
	case <-timeout:
		return false
	}
}

// run calls hooks until there are no more to call.
func (q *Queue) run() {
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

// next returns the next hook; nil if there is none.
func (q *Queue) next() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.lost; n > 0 && len(q.waiting) < q.Most {
		q.lost = 0
		if q.Dropped != nil {
			return func() { q.Dropped(n) }
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
func call(hook func()) { Guard("a hook or a logger", hook) }

// Guard calls a function of a user in a goroutine of the library, where nothing else would recover from its panic, and reports whether it
// returned. slog's default logger logs a panic, unless that panics, too.
func Guard(name string, f func()) (returned bool) {
	defer func() {
		if v := recover(); v != nil {
			defer func() { _ = recover() }()
			slog.Default().Error("pacer: "+name+" panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	f()
	return true
}
