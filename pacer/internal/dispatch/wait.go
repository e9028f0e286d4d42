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
	s.lockBound(c, func() int64 {
		if time.Now().Before(c.due) {
			return 0
		}
		return s.declared // the answer has brought other policies
	})
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
	s.unlock()

	s.enter(c)
	defer s.leave(c)
	err := s.until(ctx, c, s.next)
	s.waitDone(ctx, c, err)
	return err
}

// until has a call do what comes next, and sleeps in between, until there is nothing to sleep for.
func (s *Dispatcher) until(ctx context.Context, c *Call, next func(context.Context, *Call) (time.Duration, error)) error {
	var timer *time.Timer
	for {
		delay, err := next(ctx, c)
		if err != nil || delay <= 0 {
			return err
		}
		if delay == untilAnswered {
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

// next decides what a waiting call does now: sleep for a positive delay, go (0, nil), or give up with an error.
func (s *Dispatcher) next(ctx context.Context, c *Call) (time.Duration, error) {
	s.lock()
	if c.moving != nil { // in several requests, one after the other: an owner that gives up does not wait for that
		now := time.Now()
		err := s.whyNot(ctx, c, now)
		s.unlock()
		if err != nil {
			s.busy.Go(func() { // when the move is done
				telemetry.Guard("a store", func() { _ = s.cancel(context.WithoutCancel(ctx), c, false) })
			})
			return 0, err
		}
		if !c.latest.IsZero() && now.Before(c.latest) {
			return c.latest.Sub(now), nil
		}
		return store.Forever, nil
	}
	if c.inQueue() {
		s.unlock()
		if delay, err := s.turn(ctx, c); err != nil || delay > 0 {
			return delay, err
		}
		return s.next(ctx, c)
	}
	if c.state != reserved {
		err := c.err
		s.unlock()
		return 0, cmp.Or(err, ErrSpent)
	}
	now := time.Now()
	if err := s.whyNot(ctx, c, now); err != nil {
		s.unlock()
		_ = s.cancel(ctx, c, false)
		return 0, err
	}
	if s.outdated(c, now) {
		if !c.grant[0].Queued || c.isStale() {
			s.catchInPlace(c, now)
			s.unlock()
			s.requeueAlone(ctx, c)
			return s.next(ctx, c)
		}
		c.due = now
	}
	if at, asks := c.asksAgain(); asks {
		if delay := at.Sub(now); delay > 0 {
			if !c.latest.IsZero() && c.grant[0].Queued {
				delay = min(delay, max(1, c.latest.Sub(now)))
			}
			s.waits(ctx, c, now, c.due.Sub(now))
			s.unlock()
			return delay, nil
		}
		c.catch()
		s.unlock()
		s.askAgain(ctx, c)
		return s.next(ctx, c)
	}
	delay := c.due.Sub(now)
	if delay > 0 {
		s.waits(ctx, c, now, delay)
		s.unlock()
		return delay, nil
	}
	if s.returning(c) {
		s.waits(ctx, c, now, returnPause)
		s.unlock()
		return returnPause, nil
	}
	if s.overdue(c, now) {
		c.catch()
		s.unlock()
		s.requeueAlone(ctx, c)
		return s.next(ctx, c)
	}
	s.use(c)
	s.unlock()
	return 0, nil
}

// turn decides what a call in the queue of its process does now: sleep for a positive delay, wait no longer because of an error, or go on
// (0, nil) when it has a slot, or a position in the store's queue.
func (s *Dispatcher) turn(ctx context.Context, c *Call) (time.Duration, error) {
	s.lock()
	if !c.inQueue() {
		err := c.err
		if polls := c.state == reserved && !c.grant[0].OK && !c.grant[0].Queued && ctx.Err() == nil && !s.IsClosed(); !polls {
			s.unlock()
			return 0, err
		}
		c.catch()
		s.unlock()
		s.askAgain(ctx, c)
		return s.turn(ctx, c)
	}
	defer s.unlock()
	q, now := c.queue, time.Now()
	cause := s.gaveUp(ctx, c, now)
	switch {
	case cause != nil && c.state == asked, cause == errTimeout && q.asking && len(q.carried) == 0 && q.head == c: //nolint:errorlint // returned unwrapped
		return untilAnswered, nil // which comes soon
	case cause != nil:
		return 0, s.refuse(q, c, cause)
	case c.state == queued && (c.since == 0 || !s.frozen): // otherwise its answer comes soon
		if c.since == 0 {
			c.grant[0].Binds, c.grant[0].Paused = q.last.Binds, q.last.Paused
		}
		s.waits(ctx, c, now, s.estimate(q, c, now, int(c.grant[0].Ahead)))
	}
	if c.latest.IsZero() {
		return store.Forever, nil
	}
	return c.latest.Sub(now), nil
}

// untilAnswered is the delay of a call that sleeps until it is woken, whatever happens.
const untilAnswered = store.Forever + 1

// enter has a call be among those that wait.
func (s *Dispatcher) enter(c *Call) {
	s.lockBound(c, s.replanned)
	defer s.unlock()
	s.waiting[c] = struct{}{}
	if id := c.request[0].ID; id != 0 {
		s.byID[id] = c
		if s.wasWoken(c) {
			c.due = time.Now()
		}
	}
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
	}
	if q := c.queue; q != nil {
		s.passIdle(q)
	}
}

// leave is the end of enter.
func (s *Dispatcher) leave(c *Call) {
	s.lock()
	defer s.unlock()
	delete(s.waiting, c)
	delete(s.byID, c.request[0].ID)
}

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
	if _, waits := s.waiting[c]; mayHaveGone && !waits && !c.grant[0].Queued && !time.Now().Before(c.due) {
		s.useIfReserved(ctx, c)
		lease := c.lease
		s.unlock()
		s.Leases.Release(lease)
		return nil
	}
	taken := s.yield(c)
	c.state = givenBack // from here on, the grant does not change
	c.signal()          // somebody may be waiting for it
	s.leaveQueue(c)
	queued, lease := c.grant[0].Queued, c.lease
	s.unlock()
	if c.free || taken || !queued && !c.grant[0].OK { // in the last case it has made no request yet
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
	return nil
}

// Listen has the Dispatcher listen to its store from now on, at the latest. Only calls that wait may call it, and what made the Dispatcher: Drain
// looks at the subscription when those are gone.
func (s *Dispatcher) Listen() {
	s.news.once.Do(func() {
		if n, ok := s.Store.(store.Notifier); ok {
			s.news.stop = n.Listen(s.Upstream, s.received)
		}
	})
}
