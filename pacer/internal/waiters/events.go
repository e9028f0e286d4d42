package waiters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// ErrSpent is returned for a call that has gone or has been cancelled before.
var ErrSpent = errors.New("pacer: the reservation was used or cancelled before: make a new one")

// ErrSettled is returned for a call that was settled before.
var ErrSettled = errors.New("pacer: the call was settled before: settle it once, at all that it cost")

// Events receive what becomes of calls. Waiting, Admitted and Answered may be called under the lock of Waiters: events must not call them,
// nor block.
type Events interface {
	// Waiting is called when a call begins to wait, and when what it waits for has changed.
	Waiting(ctx context.Context, w *Wait)
	// WaitDone is called when a call that waited may go, or cannot: err says why.
	WaitDone(ctx context.Context, last *Wait, since time.Time, took time.Duration, err error)
	// Admitted is called when a call may go that these limits bind: after it waited for that long for that limit; nil for none. It goes
	// late by so much. It must not keep the call or the limits.
	Admitted(ctx context.Context, call *store.Call, limits []store.Limit, limit *store.Limit, waited, late time.Duration)
	// Answered is called when the answer to a call was reported, so long after the call went.
	Answered(ctx context.Context, took time.Duration)
	// Refused is called with what Wait returns to a call that does not go.
	Refused(ctx context.Context, err error)
	// PausesChanged is called with pauses and resumptions that are new to this process.
	PausesChanged(news []store.Change)
}

// A Wait is what a call waits for, as things are.
type Wait struct {
	Limit  *store.Limit  // nil if only NotBefore holds the call
	Cost   int64         // what the call costs that limit; its own cost if there is none
	Paused bool          // because of a pause
	Queued bool          // it has no slot yet
	Ahead  int64         // how many queued calls are before it
	At     time.Time     // when this was known
	For    time.Duration // how long from then
}

// A Refusal is the error of a call that may not go: what it would have to wait for, and for how long.
type Refusal struct {
	Wait

	Until      store.Instant // of a pause: until when what was said holds; Ahead is how many calls hold slots behind that
	MaxWait    time.Duration // the longest wait that was allowed
	Waited     time.Duration // how much of it was over
	About      bool          // For is an estimate
	AtLeast    bool          // the slot may be later: a calendar does not reach so far
	ByDeadline bool          // MaxWait is what the context's deadline left
	NoShare    bool          // the store is out of reach, and the process has no share without it
}

// Error implements error.
func (r *Refusal) Error() string { return fmt.Sprintf("not yet: wait for %v", r.For) }

// Is reports whether the process has no share, if target is [store.ErrNoShare].
func (r *Refusal) Is(target error) bool { return r.NoShare && target == store.ErrNoShare }

// A StoreError reports that a store failed.
type StoreError struct {
	Op  string // what it was to do
	Err error
}

// Error implements error.
func (e *StoreError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the error of the store.
func (e *StoreError) Unwrap() error { return e.Err }

// A binding is what a call waits for, as its owner sees it: which limit, and why.
type binding struct {
	binds  int32 // as Grant.Binds
	paused bool
}

// emitted is what hooks received of a call that waits.
type emitted struct {
	since  time.Time
	reason waitReason
	last   Wait
}

// A waitReason is what causes an event when it changes.
type waitReason struct {
	at      store.Instant
	ahead   int64
	binding binding
}

// waitsFor returns the index of the limit that the call waits for; −1 if it waits for none.
func (c *Call) waitsFor() int {
	if i := int(c.binding.binds); i < len(c.stack.Limits) {
		return max(-1, i)
	}
	return -1
}

// waited returns for how long the call has waited; 0 if it did not.
func (s *Waiters) waited(c *Call) time.Duration {
	if c.since == 0 {
		return 0
	}
	return time.Since(s.made) - c.since
}

// late returns how much later than it was due the call went; 0 if it had not to wait for a slot. It had its slot by then, which does not
// change any more.
func (s *Waiters) late(c *Call) time.Duration {
	if c.grant[0].Wait() <= 0 {
		return 0
	}
	return max(0, c.went-c.due.Sub(s.made))
}

// waits records that the call is about to wait for a given time, as things are, and emits that if what it waits for has changed. The
// caller holds mu.
func (s *Waiters) waits(ctx context.Context, c *Call, now time.Time, wait time.Duration) {
	g, first := &c.grant[0], c.since == 0
	if first {
		c.since = now.Sub(s.made)
	}
	if first || g.Binds != store.BindsNothing { // a call that has its permit, and waits for its slot, waits for the same reason as before
		c.binding = binding{int32(g.Binds), g.Paused > 0} //nolint:gosec // an index into a stack
	}
	if s.Events == nil {
		return
	}
	// When a queued call asks again is of no interest; its position is.
	reason := waitReason{g.At, g.Ahead, c.binding}
	if g.Queued {
		reason.at = 0
	}
	if c.emitted != nil && c.emitted.reason == reason {
		return
	}
	if c.emitted == nil {
		c.emitted = &emitted{since: now}
	}
	i := c.waitsFor()
	c.emitted.reason = reason
	c.emitted.last = Wait{
		Limit: c.limit(i), Cost: c.request[0].CostOf(i), Paused: c.binding.paused, Queued: g.Queued, Ahead: g.Ahead, At: now, For: wait,
	}
	s.Events.Waiting(ctx, &c.emitted.last)
}

// waitDone emits that a call no longer waits, and whether it may go.
func (s *Waiters) waitDone(ctx context.Context, c *Call, err error) {
	if s.Events == nil {
		return
	}
	if before := c.emitted; before != nil {
		s.Events.WaitDone(ctx, &before.last, before.since, s.waited(c), err)
	}
	if err == nil {
		s.admitted(ctx, c)
	} else {
		s.Events.Refused(ctx, err)
	}
}

// admitted emits that a call may go.
func (s *Waiters) admitted(ctx context.Context, c *Call) {
	switch {
	case s.Events == nil:
	case c.since == 0:
		s.Events.Admitted(ctx, &c.request[0], c.stack.Limits, nil, 0, s.late(c))
	default:
		s.Events.Admitted(ctx, &c.request[0], c.stack.Limits, c.limit(c.waitsFor()), s.waited(c), s.late(c))
	}
}

// notYet makes the error for the slot in the call's grant, which is too far away. The caller holds mu, if another goroutine knows the
// call.
func (s *Waiters) notYet(c *Call) error { return s.refusal(c) }

// notYetAt is notYet for a call that was in the queue until a request carried it, which began at a time.
func (s *Waiters) notYetAt(c *Call, began time.Time) error { return s.refusalAt(c, began) }

func (s *Waiters) refusal(c *Call) *Refusal {
	g, call := &c.grant[0], &c.request[0]
	ahead := g.Ahead
	if g.Paused > 0 {
		ahead = int64(max(0, g.At.Sub(g.Paused)) / readings.Apart)
	}
	return &Refusal{
		Wait: Wait{
			Limit: c.limit(g.Binds), Cost: call.CostOf(g.Binds), Paused: g.Paused > 0,
			Queued: g.Queued, Ahead: ahead, For: g.Wait(),
		},
		Until: g.Paused, MaxWait: call.MaxWait, ByDeadline: c.byDeadline, AtLeast: g.AtLeast, NoShare: g.Binds == store.BindsStore,
	}
}

func (s *Waiters) refusalAt(c *Call, began time.Time) *Refusal {
	r := s.refusal(c)
	if !c.latest.IsZero() && c.request[0].MaxWait < store.Forever {
		r.Waited = max(0, c.request[0].MaxWait-c.latest.Sub(began))
	}
	return r
}
