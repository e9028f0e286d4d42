package telemetry

import (
	"context"
	"time"
)

// Bounds of the harm that hooks can do to others.
const (
	// MaxQueued is the most waiting events of a set of hooks. Further ones are dropped.
	MaxQueued = 8192
	// CloseTimeout bounds how long Close waits for the delivery of all events.
	CloseTimeout = time.Second
)

// A Dispatcher delivers events to sets of hooks of type H; nil without hooks. It is safe for concurrent use.
type Dispatcher[H any] struct {
	sets []*set[H]
}

// A set is hooks that are called one at a time.
type set[H any] struct {
	Queue

	hooks *H
}

// New returns a Dispatcher for some sets of hooks; nil without any. dropped returns the hook of a set that receives how many events were
// dropped; nil if it has none.
func New[H any](hooks []*H, dropped func(*H) func(n int64)) *Dispatcher[H] {
	if len(hooks) == 0 {
		return nil
	}
	d := &Dispatcher[H]{sets: make([]*set[H], 0, len(hooks))}
	for _, h := range hooks {
		d.sets = append(d.sets, &set[H]{Queue: Queue{Most: MaxQueued, Dropped: dropped(h)}, hooks: h})
	}
	return d
}

// Any reports whether is holds for some set of hooks.
func (d *Dispatcher[H]) Any(is func(*H) bool) bool {
	if d == nil {
		return false
	}
	for _, s := range d.sets {
		if is(s.hooks) {
			return true
		}
	}
	return false
}

// Close waits until all events are delivered, within a bound, since a hook may hang.
func (d *Dispatcher[H]) Close() {
	if d == nil {
		return
	}
	timeout := time.NewTimer(CloseTimeout)
	defer timeout.Stop()
	for _, s := range d.sets {
		if !s.Wait(timeout.C) {
			return
		}
	}
}

// Emit delivers an event to the hooks that pick returns, of the sets that have one.
func Emit[H, E any](d *Dispatcher[H], event E, pick func(*H) func(E)) {
	if d == nil {
		return
	}
	for _, s := range d.sets {
		if hook := pick(s.hooks); hook != nil {
			s.Add(func() { hook(event) })
		}
	}
}

// EmitCall is Emit for hooks that also receive the context of a call.
func EmitCall[H, E any](ctx context.Context, d *Dispatcher[H], event E, pick func(*H) func(context.Context, E)) {
	if d == nil {
		return
	}
	for _, s := range d.sets {
		if hook := pick(s.hooks); hook != nil {
			s.Add(func() { hook(ctx, event) })
		}
	}
}
