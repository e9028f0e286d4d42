package dispatch

import (
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A permit that is given back is free once the store knows, and taken once the next queued call has been woken and has polled: the longer
// the round trip to the store, the longer it is idle. So a process passes the permit of a call that is over on to its own next call that
// waits for the same permits, without a request: for the store, the call before is still running. If the next call needs a slot, too, it
// polls, by the number of the call before, and the permit is idle for one round trip; if the slot is far, it gives the permit back. Other
// processes are not kept out for long: after a slice of time the permit goes back to the store, which gives it to the first queued call, of
// whatever process. Where shares are fair, the calls of a queue have one share, which pays for as long as they have the permit.

// The slice is sliceOfWays times the round trip to the store (two round trips are idle when the permit goes back), from leastSlice, which
// saves requests, to maxSlice.
const (
	sliceOfWays = 200
	leastSlice  = 250 * time.Millisecond
	maxSlice    = 15 * time.Second
	// If no call of the process waits for a permit, the process keeps it for its next call during a keptFor-th of a round trip, unless that is
	// too short for a timer: callers in a loop come at once.
	keptFor   = 8
	leastKept = time.Millisecond
	// keepQueued is how many calls of a process are in the store's queue for permits that are passed on. They are for when the slice of
	// a permit is over, and the fewer there are, the sooner it is the turn of another process.
	keepQueued = 4
)

// maxSlack is the slack of a call that no slot binds, as stores report it.
const maxSlack = time.Second

// passIdle passes on the permits that are kept, or gives them back if no call has a request under way and their time is over. The caller
// holds mu.
func (s *Dispatcher) passIdle(q *queue) {
	if len(q.idle) == 0 || s.IsClosed() {
		return
	}
	now := time.Now()
	q.idle = slices.DeleteFunc(q.idle, func(f *leases.Lease) bool {
		paused := s.pausedNow(f.Limits, now)
		switch {
		case !paused && s.pass(q, f, now):
		case !paused && (s.hasRequests(q) || now.Before(f.Kept)):
			return false
		default:
			s.giveBackIdle(f, now)
		}
		return true
	})
}

// giveBackIdle gives back permits that were kept. The caller holds mu.
func (s *Dispatcher) giveBackIdle(f *leases.Lease, now time.Time) {
	s.oweHeld(f, now)
	s.Leases.GiveBack(f)
}

// takeIdle gives a call that leaves the queue with no call before it a permit that is kept. The caller holds mu.
func (s *Dispatcher) takeIdle(q *queue, c *Call, now time.Time) bool {
	if q.queuedInStore() > 0 || s.IsClosed() {
		return false
	}
	i := slices.IndexFunc(q.idle, func(f *leases.Lease) bool { return c.choiceOf(f.Limits) >= 0 && !s.pausedNow(f.Limits, now) })
	if i < 0 {
		return false
	}
	lease := s.Leases.Pass(q.idle[i], s.storeTime(now))
	q.idle = slices.Delete(q.idle, i, i+1)
	if lease != nil {
		s.inherit(q, c, lease, now)
	}
	return lease != nil
}

// pass gives permits to the first queued call, and reports whether there is one. The caller holds mu.
func (s *Dispatcher) pass(q *queue, f *leases.Lease, now time.Time) bool {
	i := slices.IndexFunc(q.out, func(c *Call) bool {
		l := c.limit(c.grant[0].Binds)
		return c.isQueued() && c.lease == nil && l != nil && l.Spec.Algorithm == specs.Concurrency &&
			(c.latest.IsZero() || now.Before(c.latest)) && c.choiceOf(f.Limits) >= 0
	})
	if i < 0 {
		return false
	}
	lease := s.Leases.Pass(f, s.storeTime(now))
	if lease == nil {
		return false
	}
	heir := q.out[i]
	if !s.yield(heir) {
		s.owed.takeBack(heir)
		s.leaveStoreQueue(heir)
		heir.request[0].Owed = nil
	}
	delete(s.byID, heir.request[0].ID)
	s.inherit(q, heir, lease, now)
	heir.signal()
	return true
}

// inherit sets the state of a call that takes over the lease of another. If it needs a slot, too, it polls: the store finds that it has its
// permits. The caller holds mu.
func (s *Dispatcher) inherit(q *queue, c *Call, f *leases.Lease, now time.Time) {
	c.request[0].ID, c.lease, c.due = f.ID, f, now
	if !q.alone {
		return
	}
	g := &c.grant[0]
	*g = store.Grant{
		OK: true, Now: f.Began, At: f.Began, Slack: maxSlack, Binds: g.Binds, Charges: g.Charges[:0], Choice: c.choiceOf(f.Limits),
	}
	for range c.stack.Limits { // those of other choices are dropped
		g.Charges = append(g.Charges, store.Charge{From: f.ID, To: 1})
	}
	c.narrow()
	c.requested, c.known = now, s.changes.Load()
}

// takePermits takes the permits from a call that had them before its slot, and returns them; nil if it had none. A call with a slot gave its
// permits back with that. The caller holds mu.
func (s *Dispatcher) takePermits(c *Call) (had *leases.Lease) {
	if c.grant[0].OK {
		s.dropLease(c)
		return nil
	}
	had, c.lease = c.lease, nil
	return had
}

// settlePermits gives permits back that a call had before its slot, unless it has both now: then they are in their slice as before. The caller
// holds mu.
func (s *Dispatcher) settlePermits(c *Call, f *leases.Lease) {
	switch {
	case f == nil:
	case c.lease != nil:
		c.lease.Passed.Since, c.lease.Passed.Part = f.Passed.Since, f.Passed.Part
		s.Leases.Forget(f)
	default: // it gets others by another number: the store may learn late that these are free
		delete(s.byID, f.ID)
		c.request[0].ID = store.NewID()
		s.nameByID(c)
		s.giveBackIdle(f, time.Now())
	}
}

// hasRequests reports whether a call that has left the queue has no permit yet, and waits for an answer of the store or is about to
// sleep. The caller holds mu.
func (s *Dispatcher) hasRequests(q *queue) bool {
	return slices.ContainsFunc(q.out, func(c *Call) bool { return c.state == reserved && c.lease == nil && !c.isAsleep() })
}

// yield gives what a call gives up in the store, a slot or a position in a queue, to those of the process that wait behind it: each gets
// what the one before it had. The call is left with the last of it. If the first call of the process's queue took that over, yield returns
// true, and nothing has to be given back. The caller holds mu.
func (s *Dispatcher) yield(c *Call) (taken bool) {
	q, g := c.queue, &c.grant[0]
	if q == nil { // nobody waits for the call
		q = s.queues.byStack[s.queues.hashOf(c)]
	}
	if q == nil || !s.isOfUse(c) || !alike(q.limits, c.whole().limits) {
		return false
	}
	fits := func(o *Call) bool {
		return g.Queued || (o.latest.IsZero() || !c.due.After(o.latest)) && o.costsAs(c)
	}
	behind := g.OK // those that are queued are behind it
	for _, o := range q.out {
		behind = behind || o == c
		sooner := behind && o.grant[0].Queued || g.OK && o.grant[0].OK && c.due.Before(o.due)
		if o != c && o.isAsleep() && sooner && fits(o) {
			s.swap(c, o)
		}
	}
	i := slices.IndexFunc(q.line, fits)
	if i < 0 {
		return false
	}
	heir := q.line[i]
	q.remove(heir)
	q.takeOut(heir)
	s.swap(c, heir)
	return true
}

// isOfUse reports whether other calls of its queue can take over what a call has in the store. The caller holds mu.
func (s *Dispatcher) isOfUse(c *Call) bool {
	g, now := &c.grant[0], time.Now()
	return (g.Queued || g.OK && !s.overdue(c, now)) && !s.IsClosed() && !s.frozen && !s.outdated(c, now)
}

// swap exchanges what two calls of a queue have in the store: slots, permits and positions. The caller holds mu.
func (s *Dispatcher) swap(a, b *Call) {
	x, y := &a.request[0], &b.request[0]
	a.grant[0], b.grant[0] = a.giveUp(), b.giveUp()
	x.ID, y.ID, x.Since, y.Since, x.Owed, y.Owed = y.ID, x.ID, y.Since, x.Since, y.Owed, x.Owed
	a.holding, b.holding = b.holding, a.holding
	for _, c := range []*Call{a, b} {
		c.caught = true
		c.narrow()
		s.nameByID(c)
		c.signal() // it goes, or polls, at another time
	}
}

// retryFor wakes a call when a limit has a permit and no call of the queue is queued for it: the first one that is queued for another limit
// polls. The caller holds mu.
func (s *Dispatcher) retryFor(q *queue, k store.Key) {
	key, now := map[store.Key]bool{k: true}, time.Now()
	if !boundByAny(q.limits, key) || slices.ContainsFunc(q.out, func(c *Call) bool { return c.isQueued() && c.standsFor(key) }) {
		return
	}
	if i := slices.IndexFunc(q.out, func(c *Call) bool { return c.isQueued() && c.due.After(now) }); i >= 0 {
		q.out[i].retry()
	}
}
