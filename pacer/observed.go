package pacer

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/store"
)

// What calls tell hooks. Nothing of it is made if there are none.

// binding is what a call waits for, as its owner sees it: which limit, and why.
type binding struct {
	binds  int32 // as Grant.Binds
	paused bool
}

// waitsFor returns the index of the limit that a reservation waits for; −1 if it is none.
func (r *Reservation) waitsFor() int {
	if i := int(r.binding.binds); i < len(r.stack.Limits) {
		return max(-1, i)
	}
	return -1
}

// slept returns how long the reservation has slept; 0 if it did not.
func (r *Reservation) slept() time.Duration {
	if r.since == 0 {
		return 0
	}
	return time.Since(r.pacer.made) - r.since
}

// sleep notes that the reservation is going to sleep, for so long as things are, and tells the hooks if what it waits for has
// changed. The caller holds pacer.sleepers.mu.
func (r *Reservation) sleep(ctx context.Context, now time.Time, wait time.Duration) {
	g, first := &r.grant[0], r.since == 0
	if first {
		r.since = now.Sub(r.pacer.made)
	}
	if first || g.Binds != store.BindsNothing { // who has its place, and waits for its slot, waits for the same reason as before
		r.binding = binding{int32(g.Binds), g.Paused || g.Binds == store.BindsUpstream} //nolint:gosec // an index into a stack
	}
	os := r.pacer.observers
	if os == nil {
		return
	}
	// In line, the time at which the call asks again is of no interest; its place is.
	news := tidings{g.At, g.Ahead, r.binding}
	if g.Queued {
		news.at = 0
	}
	if r.tale != nil && r.tale.told == news {
		return
	}
	if r.tale == nil {
		r.tale = &tale{since: now}
	}
	s := r.pacer.sleepOf(r)
	s.InLine, s.Ahead, s.At, s.Wait = g.Queued, g.Ahead, now, wait
	r.tale.told, r.tale.last = news, s
	tellCall(ctx, os, s, func(h *Hooks) func(context.Context, Sleep) { return h.Sleeps })
}

// A tale is what hooks were told of a sleep.
type tale struct {
	since time.Time
	told  tidings
	last  Sleep
}

// tidings is what is worth telling of a sleep.
type tidings struct {
	at      store.Instant
	ahead   int64
	binding binding
}

// sleepOf says which limit holds a reservation.
func (p *Pacer) sleepOf(r *Reservation) Sleep {
	i := r.waitsFor()
	s := Sleep{Upstream: p.upstream, Cost: r.cost(i), Paused: r.binding.paused}
	if i >= 0 {
		s.Policy, s.Scope = r.stack.Limits[i].Policy, p.describe(&r.stack.Limits[i])
	}
	return s
}

// awake tells the hooks that a reservation which slept goes, or not.
func (r *Reservation) awake(ctx context.Context, err error) {
	os := r.pacer.observers
	if os == nil {
		return
	}
	if t := r.tale; t != nil {
		s := Slept{Sleep: t.last, Since: t.since, Took: r.slept(), Err: err}
		tellCall(ctx, os, s, func(h *Hooks) func(context.Context, Slept) { return h.Slept })
	}
	if err == nil {
		r.goes(ctx)
	} else {
		r.pacer.refusedCall(ctx, err)
	}
}

// goes tells the hooks that a reservation's call goes.
func (r *Reservation) goes(ctx context.Context) {
	os := r.pacer.observers
	if os == nil {
		return
	}
	g := Going{Upstream: r.pacer.upstream, Cost: r.call[0].Cost}
	if r.since != 0 {
		s := r.pacer.sleepOf(r)
		g.Policy, g.Scope, g.Waited = s.Policy, s.Scope, r.slept()
	}
	tellCall(ctx, os, g, func(h *Hooks) func(context.Context, Going) { return h.Goes })
}

// goesNow tells the hooks that a call goes which had to wait for nothing.
func (p *Pacer) goesNow(ctx context.Context, cost int64) {
	if p.observers != nil {
		tellCall(ctx, p.observers, Going{Upstream: p.upstream, Cost: cost}, func(h *Hooks) func(context.Context, Going) { return h.Goes })
	}
}

// refusedCall tells the hooks of an error that says that a call may not go. Of any other it says nothing.
func (p *Pacer) refusedCall(ctx context.Context, err error) {
	if p.observers == nil || !errors.Is(err, ErrRefused) {
		return
	}
	e := Refusal{Upstream: p.upstream, Err: err}
	if limit, ok := errors.AsType[*LimitError](err); ok {
		e.Policy, e.Scope, e.Wait = limit.Policy, limit.Scope, limit.Wait
	} else if scope, ok := errors.AsType[*ScopeError](err); ok {
		e.Policy = scope.Policy
	}
	tellCall(ctx, p.observers, e, func(h *Hooks) func(context.Context, Refusal) { return h.Refused })
}

// heardOf tells the hooks of changes of which this process did not know.
func (p *Pacer) heardOf(changes []store.Change) {
	for i := range changes {
		c := &changes[i]
		e := Pause{Upstream: p.upstream, Policy: c.Policy, Scope: p.describe(&store.Limit{Policy: c.Policy, Scope: c.Scope})}
		if c.Kind == store.Paused {
			e.For = max(0, c.Until.Sub(c.Now))
			tell(p.observers, e, func(h *Hooks) func(Pause) { return h.Paused })
		} else {
			tell(p.observers, e, func(h *Hooks) func(Pause) { return h.Resumed })
		}
	}
}

// heeded tells the hooks what the store was told.
func (p *Pacer) heeded(ctx context.Context, stack *store.Stack, notes []store.Note) {
	if p.observers == nil {
		return
	}
	for i := range notes {
		n := &notes[i]
		e := Heeding{Upstream: p.upstream, Kind: n.Kind, For: n.For, Value: n.Value}
		if n.Kind == store.NoteRemaining {
			e.Value = n.Remaining
		}
		if n.Limit >= 0 {
			l := &stack.Limits[n.Limit]
			e.Policy, e.Scope = l.Policy, p.describe(l)
		}
		tellCall(ctx, p.observers, e, func(h *Hooks) func(context.Context, Heeding) { return h.Heeded })
	}
}

// requested tells the hooks of a request to the store.
func (p *Pacer) requested(op string, calls int, took time.Duration, err error) {
	e := StoreCall{Upstream: p.upstream, Op: op, Calls: calls, Took: took, Err: err}
	tell(p.observers, e, func(h *Hooks) func(StoreCall) { return h.Asked })
}

// failedOver tells the hooks that the store is lost, or back.
func (p *Pacer) failedOver(c failover.Change) {
	e := Fallback{Upstream: p.upstream, On: c.Lost, Outage: p.outage, Processes: c.Processes, For: c.For, Err: c.Err}
	tell(p.observers, e, func(h *Hooks) func(Fallback) { return h.Fallback })
}
