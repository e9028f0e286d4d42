package waiters

import (
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// look records that something has changed for a queue: whether its first calls ask is found out before mu is released. The caller holds mu.
func (s *Waiters) look(q *queue) {
	if !q.changed {
		q.changed = true
		s.looks = append(s.looks, q)
	}
}

// admitAll is admit for all queues that have changed. The caller holds mu.
func (s *Waiters) admitAll() {
	for _, q := range s.looks {
		q.changed = false
		s.admit(q)
	}
	clear(s.looks)
	s.looks = s.looks[:0]
}

// admit has the first calls of the queue ask the store, now or when the furthest slot comes within reach. The caller holds mu.
func (s *Waiters) admit(q *queue) {
	if q.asking || s.frozen > 0 {
		return
	}
	if q.length == 0 {
		s.dropIfIdle(q)
		return
	}
	now := time.Now()
	var d time.Duration
	if q.deferred {
		again := s.letOut(q, now)
		if again.IsZero() {
			return
		}
		d = again.Sub(now)
	} else {
		n, again := s.askFor(q, now, q.length)
		if n > 0 {
			s.submit(q)
			return
		}
		d = again - now.Sub(s.made)
	}
	if q.timer != nil {
		q.timer.Reset(d)
		return
	}
	q.timer = time.AfterFunc(d, func() {
		s.lock()
		defer s.unlock()
		s.look(q)
	})
}

// submit has the first calls of a queue ask with the next request. The caller holds mu.
func (s *Waiters) submit(q *queue) {
	q.asking = true
	s.asks.waiting = append(s.asks.waiting, &q.ask)
}

// fill has the first n calls of a queue ask. The first may get any slot. The others get one within reach, and if n is 0, so does the first. The
// caller holds mu.
func (s *Waiters) fill(q *queue, now time.Time, n int) {
	a, most := &q.ask, store.Forever
	a.ctx = q.head.ctx
	if n == 0 {
		most = q.window.Reach()
	}
	for i := 0; i < max(1, n) && q.head != nil; i++ {
		c := q.head
		q.remove(c)
		c.queue, c.state, c.known = q, asked, s.changes.Load()
		if c.caught { // others may have to wait for the answer
			c.catch()
		}
		call := c.asks(now, now)
		call.MaxWait = min(call.MaxWait, most)
		q.carried, a.calls, a.grants = append(q.carried, c), append(a.calls, call), append(a.grants, store.Grant{Charges: c.grant[0].Charges[:0]})
		most = q.window.Reach()
	}
}

// asks returns what the store is asked for now, for a call that goes from a time on.
func (c *Call) asks(now, from time.Time) store.Call {
	call := c.request[0]
	call.NotBefore = max(0, from.Sub(now))
	if !c.latest.IsZero() {
		call.MaxWait = max(0, c.latest.Sub(now))
	}
	return call
}

// answerAll applies the store's answer to what a queue asked, and lets the next calls ask. The caller holds mu.
func (s *Waiters) answerAll(q *queue) {
	now, err, began := time.Now(), storeError(q.ask.err), q.ask.began
	a := Answer{Requested: began.Sub(s.made), Answered: now.Sub(s.made), Calls: len(q.carried)}
	var left []*Call // granted nothing, because that is too far ahead
	known := q.carried[0].known
	for i, c := range q.carried {
		c.queue = nil
		switch {
		case err != nil:
			s.end(c, err)
		case !s.grant(q, &a, i, c, began):
			left = append(left, c)
		}
	}
	for _, c := range slices.Backward(left) {
		q.insert(c)
	}
	for _, c := range q.carried {
		if c.moving != nil {
			c.moved()
		}
		c.signal()
	}
	if err == nil {
		before := q.window.Gap()
		q.window.Answered(&a)
		if s.renewed(q.limits, known) {
			q.expectSooner()
		}
		if gap := q.window.Gap(); gap > before+before/8 {
			s.refuseFar(q, now)
		}
	}
	clear(q.carried)
	clear(q.ask.calls)
	clear(q.ask.grants)
	q.carried, q.ask.calls, q.ask.grants, q.ask.sure, q.asking = q.carried[:0], q.ask.calls[:0], q.ask.grants[:0], 0, false
	if q.thaws {
		q.thaws = false
		s.thaw()
	}
	s.look(q)
}

// grant gives a call the store's answer, unless the call has to wait on because its slot is still too far ahead. It adds to a what the
// answer shows of the window. The caller holds mu.
func (s *Waiters) grant(q *queue, a *Answer, i int, call *Call, began time.Time) bool {
	g := &q.ask.grants[i]
	at := began.Add(g.Wait()).Sub(s.made)
	if g.Wait() > 0 || !g.OK {
		a.Waits, a.Paused = true, a.Paused || g.Paused > 0 || g.Binds < store.BindsNothing
		q.last.Binds, q.last.Paused = g.Binds, g.Paused
	}
	q.last.OK, q.last.At, q.lastCost = g.OK, g.At, q.ask.calls[i].Cost
	if q.ask.calls[i].Costs != nil {
		q.lastCost = 0
	}
	if s.unwanted(q, call, g) {
		return false
	}
	if !g.OK {
		if a.Next == 0 || at < a.Next {
			a.Next = at
		}
		a.Unreached = a.Unreached || i == 0 && unreached(&q.ask.calls[0], g)
		if call.latest.IsZero() || g.Wait() <= call.latest.Sub(began) {
			return false
		}
		call.grant[0] = *g
		call.state, call.err = givenBack, s.notYetAt(call, began)
		return true
	}
	call.grant[0], call.requested, call.state = *g, began, reserved
	s.granted(call)
	if a.Granted == 0 || at < a.First {
		a.First = at
	}
	a.Granted, a.Last = a.Granted+1, max(a.Last, at)
	if g.Wait() > 0 {
		q.held = append(q.held, call)
		call.queue = q
	}
	return true
}
