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
	s.mu.Lock()
	s.bindOwn(c, s.generation)
	s.rebind(c)
	if s.IsClosed() {
		s.mu.Unlock()
		return store.ErrClosed
	}
	s.entered++
	c.came = s.entered
	q := s.queueOf(c)
	if q.deferred {
		return s.chargeDeferred(ctx, q, c) // unlocks mu
	}
	now := time.Now()
	// The first call behind a slot that is far ahead asks, too, if the distance of the next slot is not known yet: it may be too far.
	if n, _ := s.askFor(q, now, 1); !s.isFrozen(q) && !q.asking && q.length == 0 && (n > 0 || q.window.Gap() == 0) {
		q.asking = true
		if s.lead(ctx, q, c, nil) { // unlocks mu
			return c.err
		}
		s.mu.Lock()
		s.bindOwn(c, s.generation)
		s.rebind(c)
		q, now = s.queueOf(c), time.Now() // the queue may have been dropped, and serve another stack
	}
	if err := s.tooFar(q, c, now, q.length); err != nil {
		s.thawFor(c)
		s.mu.Unlock()
		return err
	}
	s.busy.Add(1)
	defer s.busy.Done()
	return s.waitInQueue(ctx, q, c, now) // unlocks mu
}

// errTimeout marks the end of MaxWait.
var errTimeout = errors.New("the longest wait is over")

// waitInQueue waits until the call has a slot, or cannot have one. The caller holds mu, which waitInQueue unlocks.
func (s *Waiters) waitInQueue(ctx context.Context, q *queue, c *Call, now time.Time) error {
	e := &entry{call: c, queue: q, turn: make(chan struct{}, 1)}
	c.grant[0] = store.Grant{Queued: true, Ahead: int64(q.length), Binds: q.last.Binds, Paused: q.last.Paused, Charges: c.grant[0].Charges}
	s.waits(ctx, c, now, s.estimate(q, c, now, q.length))
	q.insert(e)
	s.admit(q)
	s.thawFor(c)
	s.queued.Add(1)
	s.mu.Unlock()
	s.Listen()
	defer s.queued.Add(-1)

	var timeout <-chan time.Time
	if !c.latest.IsZero() {
		timer := time.NewTimer(time.Until(c.latest))
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		cause := s.awaitTurn(ctx, e, timeout)
		s.mu.Lock()
		q := e.queue // it may be bound anew
		if cause == nil {
			cause = e.leaving
		}
		switch {
		case e.state == answered || e.state == inherits:
			s.mu.Unlock()
			return e.err
		case e.state == requested:
			e.leaving = cause
			s.mu.Unlock()
		case cause != nil:
			err := s.giveUp(q, e, cause)
			s.mu.Unlock()
			return err
		case e.state == leads && q.deferred:
			s.mu.Unlock()
			return s.askFirst(ctx, q, c)
		case e.state == leads && s.isFrozen(q):
			e.state, q.asking = queued, false
			s.mu.Unlock()
		case e.state == leads:
			if s.lead(ctx, q, c, e) { // unlocks mu
				return c.err
			}
		default:
			s.mu.Unlock()
		}
	}
}

// awaitTurn sleeps until something has changed for an entry, or its owner wants to leave: it then returns why.
func (s *Waiters) awaitTurn(ctx context.Context, e *entry, timeout <-chan time.Time) error {
	if e.leaving == nil { // only this goroutine sets it
		select {
		case <-e.turn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closed:
			return store.ErrClosed
		case <-timeout:
			return errTimeout
		}
	}
	<-e.turn // the answer comes soon
	return nil
}

// giveUp takes a call out of the queue, and returns its error. The caller holds mu.
func (s *Waiters) giveUp(q *queue, e *entry, cause error) error {
	c := e.call
	switch {
	case e.state == leads && q.deferred:
		s.leaveQueue(c)
	case e.state == leads:
		q.asking = false
		fallthrough
	default:
		q.remove(e)
		s.admit(q)
	}
	if cause == errTimeout || c.byDeadline && cause == context.DeadlineExceeded { //nolint:errorlint // both are returned unwrapped
		now := time.Now()
		r := s.refusalIn(q, c, now, s.estimate(q, c, now, 0))
		r.Waited = c.request[0].MaxWait
		return s.NotYet(r)
	}
	return cause
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
	s.admit(q)
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
	return s.NotYet(s.refusalIn(q, c, now, wait))
}

// refusalIn returns why a call does not go whose slot is about this far away. The caller holds mu.
func (s *Waiters) refusalIn(q *queue, c *Call, now time.Time, wait time.Duration) Refusal {
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
	for e := q.head; e != nil; {
		next := e.next
		if err := s.tooFar(q, e.call, now, ahead); err != nil && e.state == queued {
			q.remove(e)
			e.err, e.state = err, answered
			e.wake()
		} else {
			ahead++
		}
		e = next
	}
}
