package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// enqueue adds a call to a queue, at its place. The caller holds mu.
func (q *queue) enqueue(c *Call) {
	c.grant[0] = store.Grant{
		Queued: true, Ahead: int64(len(q.line)), Binds: q.last.Binds, Paused: q.last.Paused, Charges: c.grant[0].Charges[:0], Choice: c.request[0].First,
	}
	q.insert(c)
}

// askAnew makes a new request for a call that has nothing: in the queue of its stack, if any slot will do. The caller holds mu.
func (s *Dispatcher) askAnew(c *Call) {
	s.settlePermits(c, s.takePermits(c))
	if q := c.queue; q != nil {
		q.forget(c)
		c.queue = nil
	}
	c.widen()
	s.rebind(c)
	now := time.Now()
	if c.notBefore.After(now) || !c.latest.IsZero() && !now.Before(c.latest) {
		s.sleep(c, store.BindsNothing, c.grant[0].Now, now, 0)
		return
	}
	s.queueOf(c).enqueue(c)
}

// comeBack puts a call that has nothing in the queue of its stack. The caller holds mu.
func (s *Dispatcher) comeBack(c *Call) {
	s.rebind(c)
	q := s.queueOf(c)
	q.insert(c)
	s.look(q)
}

// enter adds a call to those that wait. The caller holds mu.
func (s *Dispatcher) enter(c *Call) {
	c.waits, s.waiting[c] = true, struct{}{}
	s.nameByID(c)
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
	}
}

// nameByID adds a call that waits to those that are found by ID. The caller holds mu.
func (s *Dispatcher) nameByID(c *Call) {
	if id := c.request[0].ID; c.waits && id != 0 {
		s.byID[id] = c
	} else {
		delete(s.byID, id)
	}
}

// leaveQueue records that a call waits no longer: its slot was used or given back. The caller holds mu.
func (s *Dispatcher) leaveQueue(c *Call) {
	if c.waits {
		delete(s.waiting, c)
		c.waits = false
		s.nameByID(c)
	}
	q := c.queue
	if q == nil {
		return
	}
	c.queue = nil
	if q.forget(c) && q.deferred && c.state == used {
		q.inStore.Served(s.sinceMade(time.Now()), s.way.Reach(), len(q.line))
	}
	s.passIdle(q)
	s.look(q)
}

// end records that a call got nothing. The caller holds mu.
func (s *Dispatcher) end(c *Call, err error) {
	s.leaveQueue(c)
	c.state, c.err = givenBack, err
	c.signal()
}

// refuse takes a call out of its queue, and returns its error. The caller holds mu.
func (s *Dispatcher) refuse(q *queue, c *Call, cause error) error {
	if c.inQueue() {
		q.remove(c)
	}
	s.end(c, cause)
	s.look(q)
	if cause == errTimeout || c.byDeadline && cause == context.DeadlineExceeded { //nolint:errorlint // both are returned unwrapped
		now := time.Now()
		r := s.notYetIn(q, c, now, s.estimate(q, c, now, 0))
		r.Waited = c.request[0].MaxWait
		c.err = r
	}
	return c.err
}

// refuseFar refuses the calls in the queue that, by what is known now, cannot go in time. The caller holds mu.
func (s *Dispatcher) refuseFar(q *queue, now time.Time) {
	ahead := 0
	for _, c := range slices.Clone(q.line) {
		if err := s.tooFar(q, c, now, ahead); err != nil && c.state == queued {
			q.remove(c)
			s.end(c, err)
		} else {
			ahead++
		}
	}
}

// use marks the slot as used: the call goes. The caller holds mu.
func (s *Dispatcher) use(c *Call) {
	if c.state = used; c.tracked {
		s.flying[c.generation] += c.request[0].Cost
	}
	if s.Events != nil {
		c.went = time.Since(s.made)
	}
	s.leaveQueue(c)
	if s.Meter.IsOn() {
		waitedFor, waited := store.BindsNothing, time.Duration(0)
		if c.since != 0 {
			waitedFor, waited = c.waitsFor(), s.waited(c)
		}
		c.counted = s.Meter.Add(c.stack.Limits, &c.request[0], c.grant[0].At, waitedFor, waited)
	}
}

// useIfReserved is use for a call whose owner slept without calling Wait: it went when it was due, as far as is known. The caller holds mu.
func (s *Dispatcher) useIfReserved(ctx context.Context, c *Call) {
	if c.state == reserved {
		s.use(c)
		c.went = c.due.Sub(s.made)
		s.admitted(ctx, c)
	}
}
