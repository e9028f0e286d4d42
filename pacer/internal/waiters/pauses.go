package waiters

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// A pause can arrive between the moment when the store granted a slot and the moment when its owner begins to wait. So an owner that
// begins to wait looks at the pauses, and a pause looks at the waiters, under one lock. All comparisons are between instants of the
// store's clock.

// changed is what this process received of a limit. News may overtake each other, and the answer to a request.
type changed struct {
	until store.Instant // when the pause ends; 0 if none is known
	since store.Instant // when the store decided on that pause
	ended store.Instant // when it decided on a resumption after that
	pause int64         // the pause was this change
	again int64         // the latest change after which slots are to be had anew
}

// maxChanged is of how many limits a process remembers changes that pause nothing.
const maxChanged = 1024

// catch marks a call as moving. The goroutine that catches a call must move it.
func (c *Call) catch() { c.moving, c.caught = make(chan struct{}), true }

// moved wakes the owner of a call that is no longer moving.
func (c *Call) moved() {
	close(c.moving)
	c.moving = nil
	c.signal()
}

// outdated reports whether what the store answered to a call is not good any more: the policies are others by now, a pause covers the slot,
// or slots that are still to come are to be had anew. The caller holds mu.
func (s *Waiters) outdated(c *Call, now time.Time) bool {
	return c.isStale() || s.paused(c) || !c.free && now.Before(c.due) && s.renewed(c.stack.Limits, c.known)
}

// paused reports whether a pause covers the slot of a call that this process received when the store had been asked already. The caller
// holds mu.
func (s *Waiters) paused(c *Call) bool {
	if c.free || c.grant[0].Queued { // a queued call has no slot, and learns of pauses when it asks again
		return false
	}
	is := func(e changed) bool { return c.known < e.pause && c.grant[0].At < e.until }
	return s.anyChanged(c.stack.Limits, is) || c.binder == nil && s.anyAllowance(c.stack.Limits, is)
}

// anyAllowance reports whether something holds of what this process received of an allowance that binds calls of some limits from now on. It
// is for those that nobody binds anew. The caller holds mu.
func (s *Waiters) anyAllowance(limits []store.Limit, is func(changed) bool) bool {
	for k, e := range s.changed {
		of := readings.PolicyOf(k.Policy)
		if of != k.Policy && is(e) && (of == "" && k.Scope == "" || slices.ContainsFunc(limits, func(l store.Limit) bool { return l.Policy == of && l.Scope == k.Scope })) {
			return true
		}
	}
	return false
}

// renewed reports whether slots of calls that some limits bind are to be had anew after more changes than these. The caller holds mu.
func (s *Waiters) renewed(limits []store.Limit, known int64) bool {
	return s.anyChanged(limits, func(e changed) bool { return known < e.again })
}

// anyChanged reports whether something holds of what this process received of one of some limits, or of too many. The caller holds mu.
func (s *Waiters) anyChanged(limits []store.Limit, is func(changed) bool) bool {
	return len(s.changed) > 0 &&
		(is(s.changed[store.Key{}]) || slices.ContainsFunc(limits, func(l store.Limit) bool { return is(s.changed[l.Key()]) }))
}

// Paused reports whether nothing is left of one of some limits, as far as this process received.
func (s *Waiters) Paused(limits []store.Limit) bool {
	s.lock()
	defer s.unlock()
	return s.pausedNow(limits, time.Now())
}

// apply records pauses and returns the waiters whose slots are no longer good, in the order of their slots, marked as moving: those
// whose slots fall inside a pause, and those of limits that were resumed or slowed down. It also returns which pauses and resumptions
// are news.
func (s *Waiters) apply(changes []store.Change) (caught []*Call, news []store.Change) {
	s.lock()
	defer s.unlock()
	news, fresh, again := s.record(changes)
	for c := range s.waiting {
		concerned := boundByAny(c.stack.Limits, again)
		switch {
		case c.grant[0].Queued:
			if concerned || c.standsBy(fresh) {
				s.retry(c)
			}
		case c.state != reserved || c.moving != nil: // see outdated
		case concerned || s.paused(c):
			c.catch()
			caught = append(caught, c)
		}
	}
	for _, q := range s.queues.byStack {
		if !boundByAny(q.limits, again) {
			continue
		}
		q.expectSooner()
		s.look(q)
	}
	return inOrder(caught), news
}

// record records pauses, and returns which pauses and resumptions are news, which limits are paused for longer than before, and for
// which ones slots are to be had anew. The caller holds mu.
func (s *Waiters) record(changes []store.Change) (news []store.Change, fresh, again map[store.Key]bool) {
	n := s.changes.Add(1)
	if len(s.changed) >= maxChanged {
		maps.DeleteFunc(s.changed, func(_ store.Key, e changed) bool { return e.until < changes[0].Now })
		s.changed[store.Key{}] = changed{again: n} // calls of which the others knew better ask once more than they need to
	}
	if s.changed == nil {
		s.changed = make(map[store.Key]changed)
	}
	again, fresh = make(map[store.Key]bool), make(map[store.Key]bool)
	for _, one := range changes {
		k := one.Key()
		e := s.changed[k]
		switch one.Kind {
		case store.Paused:
			if one.Now >= e.ended && one.Until > e.until {
				e.until, e.since, e.ended, e.pause = one.Until, one.Now, 0, n
				news, fresh[k] = append(news, one), true
			}
		case store.Resumed:
			if one.Now <= e.ended && one.Now > 0 {
				continue // it was received before, by another way
			}
			if e.until > one.Now && one.Now >= e.since {
				news = append(news, one)
			}
			if one.Now >= e.since {
				e.until, e.ended = 0, one.Now
			}
			e.again, again[k] = n, true
		case store.Slowed:
			e.again, again[k] = n, true
		case store.Wake, store.EpochBegan, store.Resync:
			continue
		}
		s.changed[k] = e
	}
	return news, fresh, again
}

// inOrder sorts calls by their slots. Those that are queued come after them, in the order in which they came.
func inOrder(all []*Call) []*Call {
	slices.SortFunc(all, func(a, b *Call) int {
		switch x, y := &a.grant[0], &b.grant[0]; {
		case x.Queued && y.Queued:
			return cmp.Compare(a.came, b.came)
		case x.Queued:
			return 1
		case y.Queued:
			return -1
		default:
			return cmp.Compare(x.At, y.At)
		}
	})
	return all
}

// limits returns the distinct limits that bind the waiters, at most n.
func (s *Waiters) limits(n int) []store.Limit {
	s.lock()
	defer s.unlock()
	seen := make(map[store.Key]bool)
	var all []store.Limit
	for c := range s.waiting {
		for _, l := range c.stack.Limits {
			if k := (l.Key()); !seen[k] && len(all) < n {
				seen[k] = true
				all = append(all, l)
			}
		}
	}
	return all
}
