package dispatch

import (
	"cmp"
	"context"
	"time"

	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

// wait sleeps until a call may go, or may not.
func (s *Dispatcher) wait(ctx context.Context, c *Call) error {
	s.lockBound(c)
	if s.IsClosed() {
		s.unlock()
		_ = s.cancel(ctx, c, false)
		return store.ErrClosed
	}
	if s.mayGoNow(ctx, c) {
		s.use(c) // the common case: nothing to wait for
		s.unlock()
		s.waitDone(ctx, c, nil)
		return nil
	}
	s.busy.Add(1)
	defer s.busy.Done()
	if !c.waits {
		s.enter(c)
		if c.grant[0].Queued { // it may have been woken before
			c.due = time.Now()
		}
	}
	s.unlock()
	err := s.until(ctx, c, s.next)
	if err != nil {
		s.giveUp(ctx, c)
	}
	s.waitDone(ctx, c, err)
	return err
}

// giveUp gives back what a call has. If the call is moving, in several requests, one after the other, its owner does not wait for that.
func (s *Dispatcher) giveUp(ctx context.Context, c *Call) {
	s.lock()
	moving := c.moving != nil
	if moving {
		s.busy.Go(func() {
			telemetry.Guard("a store", func() { _ = s.cancel(context.WithoutCancel(ctx), c, false) })
		})
	}
	s.unlock()
	if !moving {
		_ = s.cancel(ctx, c, false)
	}
}

// A step decides what a call does now: sleep for a positive delay, do something under no lock and decide again, give up with an error, or go on
// (0, nil, nil). It is called under mu.
type step func(ctx context.Context, c *Call) (delay time.Duration, do func(), err error)

// until runs a call's next step, and sleeps for the time that it returns, until it returns 0.
func (s *Dispatcher) until(ctx context.Context, c *Call, next step) error {
	var timer *time.Timer
	for {
		s.lock()
		delay, do, err := next(ctx, c)
		s.unlock()
		switch {
		case do != nil:
			do()
			continue
		case err != nil || delay <= 0:
			return err
		case delay == untilAnswered:
			<-c.wake
			continue
		}
		if c.since != 0 { // only its owner sets that. Otherwise it may go when it is answered
			s.Listen()
		}
		if timer == nil {
			timer = time.NewTimer(delay)
			defer timer.Stop()
		} else {
			timer.Reset(delay)
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-s.closed:
		case <-c.wake:
		}
	}
}

// mayGoNow reports whether a call has nothing to wait for. The caller holds mu.
func (s *Dispatcher) mayGoNow(ctx context.Context, c *Call) bool {
	now := time.Now()
	_, asks := c.asksAgain()
	return c.state == reserved && c.moving == nil && ctx.Err() == nil && !now.Before(c.due) &&
		(c.free || !asks && !s.overdue(c, now) && !s.outdated(c, now) && !s.returning(c))
}

// next is the step of a call that waits.
func (s *Dispatcher) next(ctx context.Context, c *Call) (time.Duration, func(), error) {
	now := time.Now()
	if c.moving != nil || c.state == reserved {
		if err := s.whyNot(ctx, c, now); err != nil {
			return 0, nil, err
		}
	}
	switch {
	case c.moving != nil:
		return c.left(now), nil, nil
	case c.inQueue():
		return s.turn(ctx, c)
	case c.state != reserved:
		return 0, nil, cmp.Or(c.err, ErrSpent)
	case !s.outdated(c, now):
	case c.grant[0].Queued && !c.isStale():
		c.due = now
	default:
		s.catchInPlace(c, now)
		return 0, func() { s.requeueAlone(ctx, c) }, nil
	}
	at, asks := c.asksAgain()
	delay := c.due.Sub(now)
	switch {
	case asks && !at.After(now):
		c.catch()
		return 0, func() { s.askAgain(ctx, c) }, nil
	case asks:
		s.waits(ctx, c, now, delay)
		if delay = at.Sub(now); c.grant[0].Queued {
			delay = min(delay, max(1, c.left(now)))
		}
		return delay, nil, nil
	case delay <= 0 && s.returning(c):
		delay = returnPause
	case delay <= 0 && s.overdue(c, now):
		c.catch()
		return 0, func() { s.requeueAlone(ctx, c) }, nil
	case delay <= 0:
		s.use(c)
		return 0, nil, nil
	}
	s.waits(ctx, c, now, delay)
	return delay, nil, nil
}

// left returns for how long a call may wait from now on; Forever if that has no bound, or is over.
func (c *Call) left(now time.Time) time.Duration {
	if !now.Before(c.latest) {
		return store.Forever
	}
	return c.latest.Sub(now)
}

// turn is the step of a call in the queue of its process. It goes on when it has a slot, or a position in the store's queue.
func (s *Dispatcher) turn(ctx context.Context, c *Call) (time.Duration, func(), error) {
	if !c.inQueue() {
		if c.state == reserved && !c.grant[0].OK && !c.grant[0].Queued && ctx.Err() == nil && !s.IsClosed() { // it polls for itself
			c.catch()
			return 0, func() { s.askAgain(ctx, c) }, nil
		}
		return 0, nil, c.err
	}
	q, now := c.queue, time.Now()
	cause := s.gaveUp(ctx, c, now)
	switch {
	case cause != nil && c.state == asked, cause == errTimeout && q.asking && len(q.carried) == 0 && q.line[0] == c: //nolint:errorlint // returned unwrapped
		return untilAnswered, nil, nil // which comes soon
	case cause != nil:
		return 0, nil, s.refuse(q, c, cause)
	case c.state == queued && (c.since == 0 || !s.frozen): // otherwise its answer comes soon
		if c.since == 0 {
			c.grant[0].Binds, c.grant[0].Paused = q.last.Binds, q.last.Paused
		}
		s.waits(ctx, c, now, s.estimate(q, c, now, int(c.grant[0].Ahead)))
	}
	return c.left(now), nil, nil
}

// untilAnswered is the delay of a call that sleeps until it is woken, whatever happens.
const untilAnswered = store.Forever + 1

// cancel gives a slot back, or a position in a queue. It uses the context's values, but neither its deadline nor its end. If the call may have
// gone, because nobody waits for its slot and the slot has come, it counts as gone, and as over: its owner slept until then.
func (s *Dispatcher) cancel(ctx context.Context, c *Call, mayHaveGone bool) error {
	s.lockSettled(c)
	if q := c.queue; c.inQueue() {
		_ = s.refuse(q, c, nil)
	}
	if c.state != reserved {
		s.unlock()
		return nil
	}
	if mayHaveGone && !c.waits && !c.grant[0].Queued && !time.Now().Before(c.due) {
		s.useIfReserved(ctx, c)
		lease := c.lease
		s.unlock()
		s.Leases.Release(lease)
		return nil
	}
	taken := s.yield(c)
	if !taken && c.grant[0].Queued {
		s.owed.takeBack(c)
	}
	c.state = givenBack // from here on, the grant does not change
	c.signal()          // somebody may be waiting for it
	s.leaveQueue(c)
	queued, lease := c.grant[0].Queued, c.lease
	s.unlock()
	switch {
	case c.free || taken:
		return nil
	case !c.grant[0].OK && lease != nil: // it has no slot yet
		s.Leases.GiveBack(lease)
		return nil
	case !c.grant[0].OK && !queued: // it has made no request yet
		return nil
	}
	s.Leases.Forget(lease)
	if queued {
		s.leaveStoreQueue(c)
		return nil
	}
	if !s.Direct {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), Timeout)
		defer cancel()
	}
	if err := s.Store.Cancel(ctx, c.stack, c.grant[:]); err != nil {
		return &StoreError{Op: "cancel", Err: err}
	}
	s.Freed(c.stack.Limits, func(int) bool { return true })
	return nil
}

// Listen starts to listen to the store, if nothing did before, until Drain. Only calls that wait, and the maker of the Dispatcher, may call it:
// Drain looks at the subscription when they are gone.
func (s *Dispatcher) Listen() {
	s.news.once.Do(func() {
		if n, ok := s.Store.(store.Notifier); ok {
			s.news.stop = n.Listen(s.Upstream, s.received)
		}
	})
}
