package waiters

import (
	"cmp"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// A pause can arrive between the moment when the store granted a slot and the moment when its owner begins to wait. So an owner that
// begins to wait looks at the pauses, and a pause looks at the waiters, under one lock. All comparisons are between instants of the
// store's clock.

// catch marks a call as moving if a pause covers its slot. The goroutine that catches a call must move it. The caller holds mu.
func (s *Waiters) catch(c *Call) bool {
	if c.state != reserved || c.moving != nil || !s.paused(c) && !c.isStale() {
		return false
	}
	c.catch()
	return true
}

// catch marks a call as moving.
func (c *Call) catch() { c.moving, c.caught = make(chan struct{}), true }

// moved wakes the owner of a call that is no longer moving.
func (c *Call) moved() {
	close(c.moving)
	c.moving = nil
	c.signal()
}

// paused reports whether a pause that this process received covers the slot of a call. The caller holds mu.
func (s *Waiters) paused(c *Call) bool {
	if len(s.pauses) == 0 || c.free || c.grant[0].Queued { // a queued call has no slot, and learns of pauses when it asks again
		return false
	}
	if s.pauses[store.Key{}] > c.grant[0].At {
		return true
	}
	for i := range c.stack.Limits {
		if s.pauses[c.stack.Limits[i].Key()] > c.grant[0].At {
			return true
		}
	}
	return false
}

// Paused reports whether one of some limits, or the whole upstream, is paused, as far as this process received.
func (s *Waiters) Paused(limits []store.Limit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pausedNow(limits, time.Now())
}

// apply records pauses and returns the waiters whose slots are no longer good, in the order of their slots, marked as moving: those
// whose slots fall inside a pause, and those of limits that were resumed or slowed down. It also returns which pauses and resumptions
// are news.
func (s *Waiters) apply(changes []store.Change) (caught []*Call, news []store.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news, fresh, again := s.record(changes)
	for c := range s.waiting {
		concerned := boundByAny(c.stack.Limits, again)
		switch {
		case c.grant[0].Queued:
			if concerned || c.standsFor(fresh) {
				s.retry(c)
			}
		case c.state != reserved:
		case c.moving != nil:
			if concerned || boundByAny(c.stack.Limits, fresh) {
				s.moveAgain(c)
			}
		case concerned || s.paused(c):
			c.catch()
			caught = append(caught, c)
		}
	}
	for _, q := range s.queues.byStack {
		if !boundByAny(q.limits, again) {
			continue
		}
		q.last.At = 0 // the next slot may be nearer
		if q.window.sleep > 0 {
			q.window.sleep = 0
			s.admit(q)
		}
	}
	return inOrder(caught), news
}

// record records pauses, and returns which pauses and resumptions are news, which limits are paused for longer than before, and for
// which ones slots are to be had anew. The caller holds mu.
func (s *Waiters) record(changes []store.Change) (news []store.Change, fresh, again map[store.Key]bool) {
	for k, until := range s.pauses {
		if until < changes[0].Now {
			delete(s.pauses, k)
		}
	}
	again, fresh = make(map[store.Key]bool), make(map[store.Key]bool)
	for _, one := range changes {
		k := one.Key()
		switch one.Kind {
		case store.Paused:
			if s.pauses == nil {
				s.pauses = make(map[store.Key]store.Instant)
			}
			if one.Until > s.pauses[k] {
				s.pauses[k], news = one.Until, append(news, one)
				fresh[k] = true
			}
		case store.Resumed:
			if _, was := s.pauses[k]; was {
				delete(s.pauses, k)
				news = append(news, one)
			}
			again[k] = true
		case store.Slowed:
			again[k] = true
		case store.Wake, store.EpochBegan, store.Resync:
		}
	}
	return news, fresh, again
}

// moveAgain records that something has changed for a call that is moving: the slot that it gets may no longer be good. The caller holds
// mu.
func (s *Waiters) moveAgain(c *Call) {
	if s.again == nil {
		s.again = make(map[*Call]struct{})
	}
	s.again[c] = struct{}{}
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
	s.mu.Lock()
	defer s.mu.Unlock()
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
