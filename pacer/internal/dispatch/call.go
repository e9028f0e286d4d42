package dispatch

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// Delay returns how long from now until the call may go, at least 0; about how long, if it is in the queue of its process; of a call in the
// store's queue, until it polls.
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

// A View is a call as others see it.
type View struct {
	Due     time.Time     // when to go by this machine's clock; zero for a queued call, which has no slot
	At      store.Instant // the slot, by the store's clock
	Slack   time.Duration
	Policy  string // that decided the slot; "" if none did
	Choice  int    // which of its choices binds the call; 0 for a call that has none, or no slot
	Gone    bool
	Overdue bool // the slot passed so long ago that other calls may have counted on it
}

// View returns the call as it is now.
func (c *Call) View() View {
	c.set.lock()
	defer c.set.unlock()
	g := &c.grant[0]
	v := View{At: g.At, Slack: g.Slack, Gone: c.state == used, Overdue: c.set.overdue(c, time.Now())}
	if !g.Queued {
		v.Due = c.due
	}
	if l := c.limit(g.Binds); l != nil {
		v.Policy = l.Policy
	}
	if c.choices != nil {
		v.Choice = c.choices.chosen
	}
	return v
}

// Wait sleeps until the call may go, and returns nil, or why it may not: see pacer.Reservation.Wait.
func (c *Call) Wait(ctx context.Context) error { return c.set.wait(ctx, c) }

// Cancel gives the slot back, or the position in a queue. If nobody waits for the slot and it has come, the call has gone: see
// pacer.Reservation.Cancel. Cancel does nothing if the call has gone or has been cancelled before.
func (c *Call) Cancel(ctx context.Context) error { return c.set.cancel(ctx, c, true) }

// NotUsed gives the slot back although it may have come. It does nothing if the call was waited for, or has been cancelled before.
func (c *Call) NotUsed(ctx context.Context) error { return c.set.cancel(ctx, c, false) }

// A booking is a slot that leaves the process that was granted it, and comes to the one that uses it: see pacer.Pacer.Book.

// TakeAway returns the grant of a call that has a slot, the limits that bind the call, and what it costs each of them; nil if that is the same
// for all. From then on the slot is the caller's: the call is used and nothing of it is left here, nor counted as gone.
func (c *Call) TakeAway() (g store.Grant, limits []store.Limit, costs []int64) {
	s := c.set
	s.lock()
	defer s.unlock()
	c.state = givenBack
	s.leaveQueue(c)
	if s.Meter.IsOn() {
		s.Meter.Booked(c.stack.Limits, c.grant[0].Now)
	}
	return c.grant[0], c.stack.Limits, c.request[0].Costs
}

// Go marks the slot as used, without a wait: it is now.
func (c *Call) Go(ctx context.Context) {
	c.set.lock()
	c.set.use(c)
	c.set.unlock()
	c.set.admitted(ctx, c)
}

// Lease returns the lease of the call's permits; nil if it has none.
func (c *Call) Lease() *leases.Lease { // without a function, which would be allocated for each call
	c.set.lock()
	defer c.set.unlock()
	return c.lease
}

// Answered counts the call as done at now, and returns its record.
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
			if s.flying[c.generation] -= c.request[0].Cost; s.flying[c.generation] == 0 {
				delete(s.flying, c.generation)
			}
		}
		if s.Events != nil {
			s.Events.Answered(ctx, max(0, now.Sub(s.made)-c.went))
		}
	}
	before := int64(math.MaxInt64)
	if c.generation < s.generation { // what does not bind this call may bind later ones
		before = s.generation
	}
	a.Flying = s.flyingBefore(before)
	return a
}

// Settle returns notes about what the call really cost each policy, which actual returns, and their stack, which includes the limits that
// the call cost nothing at first. A negative cost leaves a charge as it is. It returns ErrSpent if the call has not gone, and ErrSettled if
// it was settled before.
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
	stack, charged := c.stack, len(c.stack.Limits)
	if len(free) > 0 {
		stack.Limits = slices.Concat(c.stack.Limits, free)
	}
	var all []store.Note
	for i := range stack.Limits {
		l, one := &stack.Limits[i], store.Note{Kind: store.NoteSettle, Limit: i, Local: c.grant[0].Local}
		if i < charged {
			one.Cost, one.Charge = c.request[0].CostOf(i), c.grant[0].Charges[i]
		}
		one.Actual = actual(l.Policy)
		if more := one.Actual - one.Cost; one.Actual >= 0 && more != 0 && (i >= charged || !c.request[0].Keeps(i)) {
			if i < charged {
				s.owe(c, i, more)
			}
			s.Meter.Settle(l, c.request[0].Caller, c.grant[0].At, counted, more)
			if early {
				one.Charge.Made = 0 // the store takes a call to have gone otherwise
			}
			all = append(all, one)
		}
	}
	return stack, all, nil
}

// IsReusable reports whether a call that has gone may serve as another one, because no other goroutine uses it:
//
//   - The store answered, and neither a store in memory nor the member in front of a shared one touches calls, grants or limits after
//     that: work that goes on has copies. For other stores its user knows better.
//   - It no longer waits. Code that reads waiting calls holds the lock, keeps copies, and marks those that it may move as caught. A call that
//     was ever caught is not reusable: its slot may still be on its way to the store.
//   - It was not given back, so that no grant of it is owed to the store.
//   - No Answered or Settle can come: its user sees to that.
func (c *Call) IsReusable() bool { return !c.caught }

// Reset makes a call that is reusable ready for Reserve.
func (c *Call) Reset() {
	wake := c.wake
	*c = Call{place: place{wake: wake}}
	select {
	case <-wake: // nobody has waited for its last answer
	default:
	}
}
