package waiters

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// Calls that wait are in a queue of their process, one for each stack, and hold no slot. The first call of the queue asks the store,
// for itself and for those behind it that fit. So ten thousand callers of a process have a few dozen slots between them, and a tenant
// with one call waits behind slots, not behind the queues of others.
//
// Between processes, the order is by window and not by call: the oldest caller of one process may wait for up to H longer than a
// younger one of another. A process with one caller is served as often as one with sixty, while both wait.
//
// Calls whose owner does not wait yet hold their slots from the start, however far away, and so do those that ask for a later one
// (NotBefore): they are in no queue. A reservation in the future leaves a gap before it. Accounts remember their gaps, so that a later
// reservation may fill one and never delays an earlier one (conservative backfilling, as in batch schedulers). That is why a tenant
// with a long queue does not hold up the others.

// chargeInOrder charges the earliest slot for a call when it is the call's turn in the queue. When it returns, the grant is applied:
// see granted.
func (s *Waiters) chargeInOrder(ctx context.Context, c *Call) error {
	own, err := s.join(c)
	if err != nil {
		return err
	}
	defer s.busy.Done()
	s.sendOwn(own)
	for {
		if err := s.until(ctx, c, s.turn); err != nil {
			return err
		}
		if asks, err := s.hasLeft(ctx, c); err != nil {
			return err
		} else if !asks {
			return s.keep(ctx, c)
		}
		s.askAgain(ctx, c)
	}
}

// hasLeft reports whether a call has left the process for the store's queue, and has to ask for itself. It is then caught.
func (s *Waiters) hasLeft(ctx context.Context, c *Call) (bool, error) {
	s.lock()
	defer s.unlock()
	if c.state != reserved || c.grant[0].OK || c.grant[0].Queued || ctx.Err() != nil || s.IsClosed() {
		return false, c.err
	}
	c.catch()
	return true, nil
}

// join has a call enter the queue of its stack. It is then busy, and sends the request that carries it, if one is returned.
func (s *Waiters) join(c *Call) (own *request, err error) {
	s.lockBound(c, s.replanned)
	defer func() { own = s.unlockFor(func(*request) bool { return c.state == asked }) }()
	s.rebind(c)
	if s.IsClosed() {
		return nil, store.ErrClosed
	}
	q, now := s.queueOf(c), time.Now()
	if q.deferred && s.takeIdle(q, c) {
		s.busy.Add(1)
		return nil, nil //nolint:nilnil // it has what it needs
	}
	// The first call behind a slot that is far ahead asks, too, if the distance of the next slot is not known yet: it may be too far.
	n, _ := s.askFor(q, now, 1)
	asks := !q.deferred && s.frozen == 0 && !q.asking && q.length == 0 && (n > 0 || q.window.Gap() == 0)
	if !asks {
		if err := s.tooFar(q, c, now, q.length); err != nil {
			return nil, err
		}
	}
	s.busy.Add(1)
	if s.enqueue(q, c); asks {
		s.submit(q)
	}
	s.look(q)
	return nil, nil //nolint:nilnil // the request is made when the lock is released
}

// enqueue has a call be in a queue, at its place. The caller holds mu.
func (s *Waiters) enqueue(q *queue, c *Call) {
	c.grant[0] = store.Grant{
		Queued: true, Ahead: int64(q.length), Binds: q.last.Binds, Paused: q.last.Paused, Charges: c.grant[0].Charges[:0], Choice: c.request[0].First,
	}
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
	}
	q.insert(c)
}

// errTimeout marks the end of MaxWait.
var errTimeout = errors.New("the longest wait is over")

// turn returns for how long a call in the queue of its process sleeps at most, or why it waits no longer: (0, nil) when it is not there any more.
func (s *Waiters) turn(ctx context.Context, c *Call) (time.Duration, error) {
	s.lock()
	defer s.unlock()
	if !c.inQueue() {
		return 0, c.err
	}
	q, now := c.queue, time.Now()
	cause := s.gaveUp(ctx, c, now)
	switch {
	case cause != nil && c.state == asked, cause == errTimeout && q.asking && len(q.carried) == 0 && q.head == c: //nolint:errorlint // returned unwrapped
		return untilAnswered, nil // which comes soon
	case cause != nil:
		return 0, s.refuse(q, c, cause)
	case c.state == queued || c.since != 0: // otherwise it may go at once
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

// gaveUp returns why the owner of a call waits no longer; nil if it does.
func (s *Waiters) gaveUp(ctx context.Context, c *Call, now time.Time) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.IsClosed():
		return store.ErrClosed
	case !c.latest.IsZero() && !now.Before(c.latest):
		return errTimeout
	}
	return nil
}

// refuse takes a call out of its queue, and returns its error. The caller holds mu.
func (s *Waiters) refuse(q *queue, c *Call, cause error) error {
	if c.inQueue() {
		q.remove(c)
	}
	s.end(c, cause)
	s.look(q)
	if cause == errTimeout || c.byDeadline && cause == context.DeadlineExceeded { //nolint:errorlint // both are returned unwrapped
		now := time.Now()
		r := s.refusalIn(q, c, now, s.estimate(q, c, now, 0))
		r.Waited = c.request[0].MaxWait
		c.err = r
	}
	return c.err
}

// end records that a call gets nothing. The caller holds mu.
func (s *Waiters) end(c *Call, err error) {
	s.leaveQueue(c)
	c.state, c.err = givenBack, err
	c.signal()
}

// leaveQueue records that a call's slot is no longer to come: it was used or given back. The caller holds mu.
func (s *Waiters) leaveQueue(c *Call) {
	q := c.queue
	if q == nil {
		return
	}
	c.queue = nil
	if q.forget(c) && c.state == used {
		q.inStore.Served(s.sinceMade(time.Now()), s.way.Reach(), q.length)
	}
	s.passIdle(q)
	s.look(q)
}

// sinceMade returns an instant in the windows' time, counted from when the Waiters were made; 0 for instants before that.
func (s *Waiters) sinceMade(at time.Time) time.Duration { return max(0, at.Sub(s.made)) }

// askFor returns for how many of the waiting calls to ask the store now; if for none, when to try again at the earliest.
func (s *Waiters) askFor(q *queue, now time.Time, waiting int) (n int, again time.Duration) {
	return q.window.Ask(s.sinceMade(now), s.sinceMade(q.furthest()), waiting)
}

// estimate returns about how long a call waits that has this many before it.
func (s *Waiters) estimate(q *queue, c *Call, now time.Time, ahead int) time.Duration {
	switch {
	case q.deferred:
		return q.inStore.Estimate(len(q.out) + ahead)
	case q.groups:
		return s.least(q, c, now, ahead)
	}
	at := s.sinceMade(now)
	return q.window.Estimate(at, s.sinceMade(q.furthest()), ahead) - at
}

// tooFar returns the error of a call that has this many before it, if it could not go in time, as things are. The caller holds mu.
func (s *Waiters) tooFar(q *queue, c *Call, now time.Time, ahead int) error {
	// How soon a queue of the store moves is unknown, and so is when a process without a share has one.
	if c.latest.IsZero() || q.deferred || q.window.Gap() == 0 && !q.groups || q.last.Binds == store.BindsStore {
		return nil
	}
	wait := s.estimate(q, c, now, ahead)
	if wait <= c.latest.Sub(now) {
		return nil
	}
	return s.refusalIn(q, c, now, wait)
}

// refusalIn returns why a call does not go whose slot is about this far away. The caller holds mu.
func (s *Waiters) refusalIn(q *queue, c *Call, now time.Time, wait time.Duration) *Refusal {
	g := &c.grant[0]
	g.Binds, g.Paused, g.Queued = q.last.Binds, q.last.Paused, false
	g.Now, g.At = 0, store.Instant(wait.Microseconds())
	if g.Paused < s.storeTime(now) {
		g.Paused = 0
	}
	r := s.refusalAt(c, now)
	r.About = true
	return r
}

// refuseFar refuses the calls in the queue that cannot go in time, as things are now. The caller holds mu.
func (s *Waiters) refuseFar(q *queue, now time.Time) {
	ahead := 0
	for c := q.head; c != nil; {
		next := c.next
		if err := s.tooFar(q, c, now, ahead); err != nil && c.state == queued {
			q.remove(c)
			s.end(c, err)
		} else {
			ahead++
		}
		c = next
	}
}
