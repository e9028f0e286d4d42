package simulate

import (
	"math"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
)

// IDs of calls have one length, as a Pacer's have.
const firstID = 1e14

// unknownRetry is after how long a refused call comes back if it is unknown when it could go.
const unknownRetry = time.Second

// renewals is how often a lease is renewed before it would run out, as by a Pacer.
const renewals = 3

// A call was offered, and neither admitted nor refused.
type call struct {
	*stack

	call      store.Call
	requested store.Instant // by its caller
	latest    store.Instant // later it does not go
	binds     int           // the limit that made it wait; below 0 if none did
	turn      int           // counts how often its next request was scheduled
	runs      store.Instant // how long it takes
	next      func(store.Instant)

	hurried bool // the store has called it
}

// offer makes a process offer a call now. next, if not nil, is called when the call is over or may be repeated.
func (s *sim) offer(process int, st *stack, l *Load, next func(at store.Instant)) {
	c := &call{stack: st, requested: s.now, latest: math.MaxInt64, binds: store.BindsNothing, runs: s.callTime(l), next: next}
	c.call = store.Call{Cost: l.Cost, Kept: st.kept, MaxWait: time.Duration(s.plan.MaxWait)}
	if c.call.MaxWait < pacer.Forever {
		c.latest = s.now + s.plan.MaxWait.micros()
	}
	if st.hasQueue {
		c.call.ID, c.call.Flow, c.call.Weight = firstID+s.rng.Int64N(9*firstID), st.flow, max(1, st.weight)
		c.call.Reach = s.way.Lead()
	}
	s.offered(c, s.now)
	if st.hasQueue {
		s.askAt(c, s.now+s.half)
		return
	}
	s.enqueue(c, process)
}

// callTime returns how long a call takes.
func (s *sim) callTime(l *Load) store.Instant {
	if l.Exponential {
		return store.Instant(math.Round(float64(l.CallTime.micros()) * s.rng.ExpFloat64()))
	}
	return l.CallTime.micros()
}

// askAt schedules a call's request, in place of an earlier one.
func (s *sim) askAt(c *call, at store.Instant) {
	c.turn++
	turn := c.turn
	s.at(at, func() {
		if c.turn == turn {
			s.ask(c)
		}
	})
}

// ask requests a slot for a call.
func (s *sim) ask(c *call) {
	if left := c.latest - (s.now - s.half); c.call.Since != 0 && c.latest != math.MaxInt64 {
		if left <= 0 && s.queued[c.call.ID] == c {
			s.report(c, store.NoteRelease, 0)
			s.refuse(c, 0)
			return
		}
		c.call.MaxWait = max(0, left.Sub(0))
	}
	s.requested++
	calls := [1]store.Call{c.call}
	if s.err = s.store.Reserve(s.ctx, c.Stack, calls[:], s.grant[:]); s.err != nil {
		return
	}
	s.answer(c, &s.grant[0])
	s.callThem()
}

// answer handles the store's answer.
func (s *sim) answer(c *call, g *store.Grant) {
	c.call.Held, c.call.Slot, c.hurried = nil, 0, false
	if c.call.ID != 0 {
		delete(s.queued, c.call.ID)
		if c.call.Since == 0 {
			c.call.Since = g.Now
		}
	}
	if g.Binds >= 0 {
		c.binds = g.Binds
		if g.At > s.now {
			s.bound(c, s.now, g.At)
		}
	}
	switch {
	case g.Queued:
		s.queued[c.call.ID] = c
		s.askAt(c, min(g.At, c.latest)+s.timerLate()+s.half)
	case !g.OK:
		s.refuse(c, max(0, g.Wait()))
	case !c.hasPermits(g):
		c.call.Held, c.call.Slot = slices.Clone(g.Charges), g.At
		ahead := store.Instant(c.call.Reach.Microseconds())
		s.askAt(c, max(s.now+s.half, g.At-ahead+s.timerLate())+s.half)
	default:
		s.goes(c, g)
	}
}

// goes starts a call that has its slot and its permits.
func (s *sim) goes(c *call, g *store.Grant) {
	at := s.now + s.half
	if wait := g.Wait(); wait > 0 {
		jitter := min(time.Duration(s.plan.Jitter), g.Slack)
		if c.latest != math.MaxInt64 {
			jitter = min(jitter, c.latest.Sub(g.At))
		}
		at = g.At + s.half + s.upTo(jitter) + s.timerLate()
	}
	over, wait := at+c.runs, at-c.requested
	s.at(at, func() { s.admitted(c, s.now, wait) })
	if guard, lease, ok := c.leases(); ok {
		id, began := c.call.ID, g.At
		s.at(over+store.Instant(guard)+s.half, func() { s.report(c, store.NoteRelease, 0) })
		s.renew(c, id, began, store.Instant(lease/renewals), over)
	}
	if c.next != nil {
		c.next(over)
	}
}

// renew renews the leases of a call while it runs.
func (s *sim) renew(c *call, id int64, began, every, over store.Instant) {
	if s.now+every >= over {
		return
	}
	s.at(s.now+every, func() {
		s.report(c, store.NoteRenew, began)
		s.renew(c, id, began, every, over)
	})
}

// report reports a call to the store.
func (s *sim) report(c *call, kind store.NoteKind, began store.Instant) {
	delete(s.queued, c.call.ID)
	_, _, err := s.store.Report(s.ctx, c.Stack, c.notes(kind, &c.call, began))
	if s.err = err; err == nil {
		s.callThem()
	}
}

// refuse ends a call that does not go, though it could after some time; 0 if that is unknown.
func (s *sim) refuse(c *call, wait time.Duration) {
	s.refused(c, s.now)
	if c.next == nil {
		return
	}
	if wait == 0 {
		wait = unknownRetry
	}
	if s.plan.Retry > 0 {
		wait = time.Duration(s.plan.Retry)
	}
	c.next(s.now + s.half + max(1, Duration(wait).micros()))
}
