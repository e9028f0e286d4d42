package waiters

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Call is one call on its way to its slot: see the package's drawing. Its zero value is to be reserved for: see [Waiters.Reserve].
// Then it is safe for concurrent use.
type Call struct {
	set        *Waiters
	ctx        context.Context //nolint:containedctx // for its values
	stack      store.Stack
	request    [1]store.Call // to the store
	latest     time.Time     // no later slot will do; zero for Forever
	notBefore  time.Time     // the call wants to go no earlier
	byDeadline bool          // latest comes from the context's deadline
	arrived    time.Time
	came       int64  // how many came to the queues of this process before it
	binder     Binder // binds it anew; nil if nobody does

	// The fields below are under the lock of Waiters from when the call is handed out. Small fields are adjacent, so that a Call is no
	// larger than it needs to be: most calls make one.
	state      callState
	caught     bool // it was moved, or may be: goroutines other than its owner may still look at it
	woken      bool // it was woken while it is moving
	tracked    bool // the answer will be reported
	answered   bool // the answer was reported
	paid       bool // the cost was settled
	free       bool // no limit binds it, and the store was not asked: see Free
	grant      [1]store.Grant
	requested  time.Time     // when the store was asked for the slot, which is no earlier than this plus the grant's wait
	known      int64         // how many changes this process had received by then: the store knew of them. See outdated
	due        time.Time     // when to go: the slot and jitter
	moving     chan struct{} // closed when a move that is under way is done; nil if none is
	err        error         // why it got nothing
	generation int64         // of the policies of which it is known how they bind it
	anew       *Bound        // how it is to be bound anew; nil if that is as it is
	wake       chan struct{} // wakes its owner when it was moved; nil before it waits
	lease      *leases.Lease // its permits; nil if it has none
	queue      *queue        // in which it is, or whose window has its slot, until the slot comes; nil if none
	prev, next *Call         // in the queue
	since      time.Duration // when it began to wait, since the Waiters were made; 0 if it did not
	went       time.Duration // when it went, since the Waiters were made; only if there are hooks
	counted    int64         // the second in which Meter has it; 0 if it has not
	binding    binding       // what it waits for
	emitted    *emitted      // what hooks received of the wait; nil if there are no hooks, or it does not wait
	choices    *choices      // that it has besides the one that binds it; nil if it has none, or no slot

	room [store.FewLimits]store.Charge // for the grant's charges, to save an allocation
}

type callState uint8

const (
	reserved  callState = iota // has a slot, or a position in the store's queue
	queued                     // is in the queue of its process, and has nothing
	asked                      // likewise: a request of its queue carries it
	used                       // has gone
	givenBack                  // what it had was given back, or it got nothing: see err
)

// inQueue reports whether the call is in the queue of its process. The caller holds mu.
func (c *Call) inQueue() bool { return c.state == queued || c.state == asked }

// Delay returns how long from now until the call may go, at least 0; about how long, if it is in the queue of its process; of a call in
// the store's queue, until it asks again.
func (c *Call) Delay() time.Duration {
	c.set.lock()
	defer c.set.unlock()
	if !c.inQueue() {
		return max(0, time.Until(c.due))
	}
	ahead, found := 0, false
	c.queue.each(func(o *Call) {
		if found = found || o == c; !found {
			ahead++
		}
	})
	return c.set.estimate(c.queue, c, time.Now(), ahead)
}

// Due returns when to go by this machine's clock; the zero Time for a queued call, which has no slot.
func (c *Call) Due() time.Time {
	c.set.lock()
	defer c.set.unlock()
	if c.grant[0].Queued {
		return time.Time{}
	}
	return c.due
}

// Policy returns the name of the policy that decided the slot; "" if none did.
func (c *Call) Policy() string {
	c.set.lock()
	defer c.set.unlock()
	if l := c.limit(c.grant[0].Binds); l != nil {
		return l.Policy
	}
	return ""
}

// Slot returns the slot, by the store's clock, and its slack.
func (c *Call) Slot() (at store.Instant, slack time.Duration) {
	c.set.lock()
	defer c.set.unlock()
	return c.grant[0].At, c.grant[0].Slack
}

// Wait sleeps until the call may go, and returns nil, or why it may not: see pacer.Reservation.Wait.
func (c *Call) Wait(ctx context.Context) error { return c.set.wait(ctx, c) }

// Cancel gives the slot back, or the position in a queue. If nobody waits for the slot and it has come, the call has gone: see
// pacer.Reservation.Cancel. Cancel does nothing if the call has gone or has been cancelled before.
func (c *Call) Cancel(ctx context.Context) error {
	if c.set.hasGone(ctx, c) {
		return nil
	}
	return c.set.cancel(ctx, c)
}

// NotUsed gives the slot back although it may have come. It does nothing if the call was waited for, or has been cancelled before.
func (c *Call) NotUsed(ctx context.Context) error { return c.set.cancel(ctx, c) }

// Go marks the slot as used, without a wait: it is now.
func (c *Call) Go(ctx context.Context) {
	c.set.lock()
	c.set.use(c)
	c.set.unlock()
	c.set.admitted(ctx, c)
}

// HasGone reports whether the call has gone.
func (c *Call) HasGone() bool {
	c.set.lock()
	defer c.set.unlock()
	return c.state == used
}

// IsOverdue reports whether the slot passed so long ago that other calls may have counted on it.
func (c *Call) IsOverdue() bool {
	c.set.lock()
	defer c.set.unlock()
	return c.set.overdue(c, time.Now())
}

// Lease returns the lease of the call's permits; nil if it has none.
func (c *Call) Lease() *leases.Lease {
	c.set.lock()
	defer c.set.unlock()
	return c.lease
}

// Flying returns the cost of calls that went and are not answered, and whose answers will be reported.
func (s *Waiters) Flying() int64 {
	s.lock()
	defer s.unlock()
	return s.flying
}

// Answered counts the call as done at now, and returns what is known of it.
func (c *Call) Answered(ctx context.Context, now time.Time) readings.Answer {
	s := c.set
	s.lock()
	defer s.unlock()
	a := readings.Answer{Limits: c.stack.Limits}
	s.useIfReserved(ctx, c)
	if c.state != used {
		return a
	}
	if a.Grant, a.Again, a.Took, a.Cost = &c.grant[0], c.answered, now.Sub(c.due), c.request[0].Cost; !c.answered {
		if c.answered = true; c.tracked {
			s.flying -= c.request[0].Cost
		}
		if s.Events != nil {
			s.Events.Answered(ctx, max(0, now.Sub(s.made)-c.went))
		}
	}
	a.Flying = s.flying
	return a
}

// Settle returns notes about what the call really cost each policy, as a function reports it, and the stack that they are about: with the
// limits that the call cost nothing at first. A negative cost leaves a charge as it is. It returns ErrSpent if the call has not gone, and
// ErrSettled if it was settled before.
func (c *Call) Settle(ctx context.Context, free []store.Limit, actual func(policy string) int64) (store.Stack, []store.Note, error) {
	s := c.set
	s.lock()
	s.useIfReserved(ctx, c)
	var err error
	if c.paid {
		err = ErrSettled
	} else if c.state != used {
		err = ErrSpent
	}
	c.paid = c.state == used
	counted, early := c.counted, time.Now().Before(c.due)
	s.unlock()
	if err != nil {
		return store.Stack{}, nil, err
	}
	var all []store.Note
	for i := range c.stack.Limits {
		cost := c.request[0].CostOf(i)
		if n := actual(c.stack.Limits[i].Policy); n >= 0 && n != cost {
			s.Meter.Settle(&c.stack.Limits[i], c.grant[0].At, counted, n-cost)
			one := store.Note{Kind: store.NoteSettle, Limit: i, Charge: c.grant[0].Charges[i], Cost: cost, Actual: n, Local: c.grant[0].Local}
			if early {
				one.Charge.Made = 0 // the store takes a call to have gone otherwise
			}
			all = append(all, one)
		}
	}
	if len(free) == 0 {
		return c.stack, all, nil
	}
	stack := c.stack
	stack.Limits = slices.Concat(c.stack.Limits, free)
	for i := range free {
		if n := actual(free[i].Policy); n > 0 {
			s.Meter.Settle(&free[i], c.grant[0].At, counted, n)
			all = append(all, store.Note{Kind: store.NoteSettle, Limit: len(c.stack.Limits) + i, Actual: n, Local: c.grant[0].Local})
		}
	}
	return stack, all, nil
}

// IsReusable reports whether a call that has gone may serve as another one, because no other goroutine has it any more:
//
//   - The store answered, and neither a store in memory nor the member in front of a shared one touches calls, grants or limits after
//     that: work that goes on has copies. For other stores its user knows better.
//   - It has left the waiters. Code that looks at waiters holds their lock, takes copies along, and marks what it wants to move, or
//     may, as caught. A call that was ever caught is not reusable: the slot that it had may still be on its way to the store.
//   - It was not given back, so that no grant of it is owed to the store.
//   - No Answered or Settle can come: its user sees to that.
func (c *Call) IsReusable() bool { return !c.caught }

// limit returns the limit with this index; nil if there is none.
func (c *Call) limit(i int) *store.Limit {
	if i < 0 || i >= len(c.stack.Limits) {
		return nil
	}
	return &c.stack.Limits[i]
}

// hasPermits reports whether the call has its permits, if it needs any. A call that is let through needs none.
func (c *Call) hasPermits() bool {
	if g := &c.grant[0]; g.Local && g.Receipt == nil {
		return true
	}
	for i, charge := range c.grant[0].Charges {
		if charge.To == 0 && c.stack.Limits[i].Spec.Algorithm == policies.Concurrency {
			return false
		}
	}
	return true
}

// asksAgain reports whether the call has to ask the store once more before it may go, and when.
func (c *Call) asksAgain() (at time.Time, again bool) {
	if !c.grant[0].OK {
		return c.due, true
	}
	if c.request[0].ID == 0 {
		return time.Time{}, false
	}
	return c.due.Add(-c.set.way.Lead()), !c.hasPermits()
}

// boundByAny reports whether one of some keys, or a change of all limits, concerns calls that some limits bind.
func boundByAny(limits []store.Limit, keys map[store.Key]bool) bool {
	if len(keys) == 0 {
		return false
	}
	if keys[store.Key{}] {
		return true
	}
	for i := range limits {
		if keys[limits[i].Key()] {
			return true
		}
	}
	return false
}

// signal wakes the owner of a call, which looks at what has changed.
func (c *Call) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
