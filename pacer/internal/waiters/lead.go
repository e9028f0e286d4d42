package waiters

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// lead asks the store for a call and for those behind it in the queue that fit. The caller holds mu, and has set q.asking; lead
// unlocks. It returns true if the call is served: its grant is applied, or c.err is why it has none. Otherwise the call waits on.
func (s *Waiters) lead(ctx context.Context, q *queue, c *Call, e *entry) (served bool) {
	began := time.Now()
	if e != nil {
		q.remove(e)
	}
	n, _ := s.askFor(q, began, 1+q.length)
	q.fill(c, began, n, s.changes.Load())
	s.mu.Unlock()

	stack := store.Stack{Upstream: s.Upstream, Limits: q.limits}
	if !s.Direct {
		ctx = context.WithoutCancel(ctx)
	}
	returned := false
	defer func() {
		if !returned { // the store panics, or a hook of its client: the caller handles that, but no other call must wait for it
			s.mu.Lock()
			s.answerAll(ctx, q, c, e, began, s.StoreError("reserve", store.ErrUnreachable))
			s.mu.Unlock()
		}
	}()
	err := s.Store.Reserve(ctx, stack, q.calls, q.grants)
	returned = true
	if err != nil {
		err = s.StoreError("reserve", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answerAll(ctx, q, c, e, began, err)
}

// fill makes a request for a call and n−1 of those in the queue. The first may get any slot. The others get one within reach, and if n
// is 0, so does the first. The process knows of so many changes by now.
func (q *queue) fill(c *Call, now time.Time, n int, known int64) {
	reach, first := q.window.Reach(), store.Forever
	if n == 0 {
		first = reach
	}
	add := func(c *Call, most time.Duration) {
		c.known = known
		call := c.request[0]
		if !c.latest.IsZero() {
			call.MaxWait = max(0, c.latest.Sub(now))
		}
		call.MaxWait = min(call.MaxWait, most)
		q.calls, q.grants = append(q.calls, call), append(q.grants, store.Grant{Charges: c.grant[0].Charges[:0]})
	}
	q.leader = c
	add(c, first)
	for len(q.calls) < n && q.head != nil {
		e := q.head
		q.remove(e)
		e.state = requested
		q.served = append(q.served, e)
		add(e.call, reach)
	}
}

// answerAll applies the store's answer to the request under way, and lets the next call ask. It reports whether the call that led is
// served. The caller holds mu.
func (s *Waiters) answerAll(ctx context.Context, q *queue, c *Call, leader *entry, began time.Time, err error) (served bool) {
	served = true
	now := time.Now()
	a := Answer{Requested: began.Sub(s.made), Answered: now.Sub(s.made), Calls: len(q.calls)}
	var left []*entry // granted nothing, because that is too far ahead
	for i := range q.calls {
		call, e := c, leader
		if i > 0 {
			e = q.served[i-1]
			call = e.call
		}
		switch {
		case err != nil:
			call.err = err
		case !s.grant(ctx, q, &a, i, call, began):
			if served = served && i > 0; e != nil {
				left = append(left, e)
			}
			continue
		}
		if i > 0 {
			e.err, call.err, e.state = call.err, nil, answered
			e.wake()
		}
	}
	for _, e := range slices.Backward(left) {
		e.state = queued
		q.pushFront(e)
		if e.leaving != nil {
			e.wake()
		}
	}
	if err == nil {
		before := q.window.Gap()
		q.window.Answered(&a)
		if s.renewed(q.limits, c.known) {
			q.expectSooner()
		}
		if gap := q.window.Gap(); gap > before+before/8 {
			s.refuseFar(q, now)
		}
	}
	clear(q.calls)
	clear(q.grants)
	clear(q.served)
	q.calls, q.grants, q.leader, q.served, q.asking = q.calls[:0], q.grants[:0], nil, q.served[:0], false
	switch {
	case !q.thaws:
	case served || leader != nil:
		q.thaws = false
		s.thaw()
	default: // when the call that led is back in the queue
		q.thaws, c.thaws = false, true
	}
	s.admit(q)
	return served
}

// grant gives a call the store's answer, unless the call has to wait on because its slot is still too far ahead. It adds to a what the
// answer shows of the window. The caller holds mu.
func (s *Waiters) grant(ctx context.Context, q *queue, a *Answer, i int, call *Call, began time.Time) bool {
	g := &q.grants[i]
	at := began.Add(g.Wait()).Sub(s.made)
	if g.Wait() > 0 || !g.OK {
		a.Waits, a.Paused = true, a.Paused || g.Paused > 0 || g.Binds < store.BindsNothing
		q.last.Binds, q.last.Paused = g.Binds, g.Paused
	}
	q.last.OK, q.last.At, q.lastCost = g.OK, g.At, q.calls[i].Cost
	if q.calls[i].Costs != nil {
		q.lastCost = 0
	}
	if s.unwanted(ctx, q, call, g) {
		return false
	}
	if !g.OK {
		if a.Next == 0 || at < a.Next {
			a.Next = at
		}
		a.Unreached = a.Unreached || i == 0 && unreached(&q.calls[0], g)
		if call.latest.IsZero() || g.Wait() <= call.latest.Sub(began) {
			return false
		}
		call.grant[0] = *g
		call.err = s.notYetAt(call, began)
		return true
	}
	call.grant[0], call.requested = *g, began
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

// admit lets the first call of the queue ask the store, now or when the furthest slot comes within reach. The caller holds mu.
func (s *Waiters) admit(q *queue) {
	if q.asking || s.isFrozen(q) {
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
			q.asking = true
			q.head.state = leads
			q.head.wake()
			return
		}
		d = again - now.Sub(s.made)
	}
	if q.timer != nil {
		q.timer.Reset(d)
		return
	}
	q.timer = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.admit(q)
	})
}
