package waiters

import (
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A permit that is given back is free once the store knows, and taken once the next queued call has been woken and has asked: the longer
// the round trip to the store, the longer it is idle. So a process passes the permit of a call that is over on to its own next call
// that waits for the same permits and nothing else, without a request: for the store, the call before is still running. Other processes
// are not kept out for long: after a slice of time the permit goes back to the store, which gives it to the first queued call, of
// whatever process.

// The slice is sliceOfWays times the round trip to the store, of which two round trips are idle when the permit goes back, and no longer
// than maxSlice.
const (
	sliceOfWays = 200
	maxSlice    = 30 * time.Second
	// A permit that no call of the process waits for is kept for the next one that comes within this part of the round trip, if that
	// is worth a timer: callers that call again and again come at once.
	keptFor   = 8
	leastKept = time.Millisecond
	// keepQueued is how many calls of a process are in the store's queue for permits that are passed on. They are for when the slice of
	// a permit is over, and the fewer there are, the sooner it is the turn of another process.
	keepQueued = 4
)

// maxSlack is the slack of a call that no slot binds, as stores report it.
const maxSlack = time.Second

// passable reports whether permits under some limits are passed on: they are if the call needs nothing else. The store decides which
// call gets those of fair shares, and a lease that counts only from some age on must not grow old.
func passable(limits []store.Limit) bool {
	return !slices.ContainsFunc(limits, func(l store.Limit) bool {
		return l.Spec.Algorithm != policies.Concurrency || l.Spec.Queue == policies.FairQueue || l.Spec.After != 0
	})
}

// PassOn gives the permits of a call that is over to the next call of this process that waits for the same ones. If all such calls have
// a request under way, it keeps the permits until one of them has its answer. It returns false if they are to go back to the store.
func (s *Waiters) PassOn(f *leases.Lease) bool {
	now := time.Now()
	slice := f.Passed.Part * float64(min(maxSlice, sliceOfWays*s.way.Longest()))
	if f.Passed.Queue == 0 || !s.Echoes() || now.Sub(f.Passed.Since) > time.Duration(slice) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := s.way.Longest() / keptFor
	if s.queues.byStack[f.Passed.Queue] == nil && keep < leastKept || s.IsClosed() || s.pausedNow(f.Limits, now) {
		return false // without a queue, no call waits
	}
	limits := f.Limits
	if f.Passed.Limits != nil {
		limits = f.Passed.Limits
	}
	q := s.queueFor(f.Passed.Queue, limits, true)
	if q == nil {
		return false
	}
	if s.pass(q, f, now) {
		return true
	}
	if keep >= leastKept {
		f.Kept = now.Add(keep)
		time.AfterFunc(keep, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.passIdle(q) // the queue may serve another stack by now, which does no harm
			s.admit(q)
		})
	} else if !s.hasRequests(q) {
		return false
	}
	q.idle = append(q.idle, f)
	return true
}

// passIdle passes on the permits that are kept, or gives them back if no call has a request under way and their time is over. The caller
// holds mu.
func (s *Waiters) passIdle(q *queue) {
	for len(q.idle) > 0 && !s.IsClosed() {
		f := q.idle[0]
		now := time.Now()
		if paused := s.pausedNow(f.Limits, now); paused || !s.pass(q, f, now) {
			if !paused && (s.hasRequests(q) || now.Before(f.Kept)) {
				return
			}
			s.Leases.GiveBack(f)
		}
		q.idle = slices.Delete(q.idle, 0, 1)
	}
}

// takeIdle gives a call that arrives with no call before it a permit that is kept. The caller holds mu.
func (s *Waiters) takeIdle(q *queue, c *Call) bool {
	now := time.Now()
	if len(q.idle) == 0 || q.length > 0 || q.queuedInStore() > 0 || s.IsClosed() {
		return false
	}
	i := slices.IndexFunc(q.idle, func(f *leases.Lease) bool { return c.choiceOf(f.Limits) >= 0 && !s.pausedNow(f.Limits, now) })
	if i < 0 {
		return false
	}
	f := q.idle[i]
	q.idle = slices.Delete(q.idle, i, i+1)
	if !s.passTo(f, c, now) {
		return false
	}
	q.takeOut(c)
	s.inherit(c, f, now)
	return true
}

// pass gives permits to the first queued call, and reports whether there is one. The caller holds mu.
func (s *Waiters) pass(q *queue, f *leases.Lease, now time.Time) bool {
	i := slices.IndexFunc(q.out, func(c *Call) bool {
		return s.isQueued(c) && (c.latest.IsZero() || now.Before(c.latest)) && c.choiceOf(f.Limits) >= 0
	})
	if i < 0 || !s.passTo(f, q.out[i], now) {
		return false
	}
	heir := q.out[i]
	if left := s.leavePosition(heir); left != 0 {
		s.Leases.Leave(left, heir.standing())
	}
	s.inherit(heir, f, now)
	heir.signal()
	return true
}

// passTo makes the lease of a call that is done the lease of another, which begins now. It returns false if the lease is no longer held.
// The caller holds mu.
func (s *Waiters) passTo(f *leases.Lease, c *Call, now time.Time) bool {
	heir := s.Leases.Pass(f, s.storeTime(now))
	if heir != nil {
		c.lease = heir
	}
	return heir != nil
}

// inherit sets what a call has that took over the lease of another. The caller holds mu.
func (s *Waiters) inherit(c *Call, f *leases.Lease, now time.Time) {
	c.request[0].ID = f.ID
	g := &c.grant[0]
	*g = store.Grant{
		OK: true, Now: c.lease.Began, At: c.lease.Began, Slack: maxSlack, Binds: g.Binds, Charges: g.Charges[:0], Choice: c.choiceOf(f.Limits),
	}
	for range c.stack.Limits { // those of other choices are dropped
		g.Charges = append(g.Charges, store.Charge{From: f.ID, To: 1})
	}
	c.narrow()
	c.requested, c.due = now, now
	s.Usage.Enter(&c.tracked, c.stack.Limits, &c.request[0])
}

// hasRequests reports whether a call that has left the queue has no permit yet, and waits for an answer of the store or is about to
// sleep. The caller holds mu.
func (s *Waiters) hasRequests(q *queue) bool {
	return slices.ContainsFunc(q.out, func(c *Call) bool { return c.state == reserved && c.lease == nil && !s.isQueued(c) })
}

// pausedNow reports whether one of some limits, or the whole upstream, is paused. The caller holds mu.
func (s *Waiters) pausedNow(limits []store.Limit, now time.Time) bool {
	at, pauses := s.storeTime(now), s.pauses
	return pauses[store.Key{}] > at || slices.ContainsFunc(limits, func(l store.Limit) bool { return pauses[l.Key()] > at })
}

// leavePosition gives the position of the process's first call in the store's queue, which is the call that the store wakes next, to
// another of its calls: to the first that waits in the process, or else to the last that is queued in the store. It returns the ID of
// the position that is then given up, to be reported to the store; 0 for none. The caller holds mu.
func (s *Waiters) leavePosition(c *Call) (id int64) {
	q := c.queue
	e := q.head
	if e == nil {
		s.swap(c, s.lastQueued(q))
		delete(s.byID, c.request[0].ID)
		return c.request[0].ID
	}
	q.remove(e)
	next := e.call
	q.takeOut(next)
	next.request[0].ID, next.request[0].Since = c.request[0].ID, c.request[0].Since
	charges := next.grant[0].Charges
	next.grant[0], next.requested, next.due = c.grant[0], c.requested, c.due
	next.grant[0].Charges = charges
	delete(s.byID, c.request[0].ID) // until it sleeps again
	e.state = inherits
	e.wake()
	return 0
}

// lastQueued returns the last call that is queued in the store, of which there is at least one. The caller holds mu.
func (s *Waiters) lastQueued(q *queue) *Call {
	for _, c := range slices.Backward(q.out) {
		if s.isQueued(c) {
			return c
		}
	}
	return nil
}

// swap exchanges the positions of two calls in the store's queue. The caller holds mu.
func (s *Waiters) swap(a, b *Call) {
	if a == b {
		return
	}
	a.request[0].ID, b.request[0].ID = b.request[0].ID, a.request[0].ID
	a.request[0].Since, b.request[0].Since = b.request[0].Since, a.request[0].Since
	a.due, b.due = b.due, a.due
	a.grant[0], b.grant[0] = b.grant[0], a.grant[0]
	a.grant[0].Charges, b.grant[0].Charges = b.grant[0].Charges, a.grant[0].Charges
	for _, c := range []*Call{a, b} {
		s.byID[c.request[0].ID] = c
		c.signal() // it asks again at another time
	}
}
