package dispatch

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// maxChanged is of how many limits a process remembers changes that pause nothing.
const maxChanged = 1024

// storeTime returns what the store's clock shows at a time that is now, more or less; 0 if nothing is known of it.
func (s *Dispatcher) storeTime(now time.Time) store.Instant {
	if s.Member != nil {
		return s.Member.Now()
	}
	if d, ok := s.Store.(store.Direct); ok {
		return d.Now()
	}
	return s.clock.estimate(now)
}

// outdated reports whether the store's answer to a call is no longer good: the policies are others by now, a pause covers the slot, or
// future slots must be requested anew. The caller holds mu.
func (s *Dispatcher) outdated(c *Call, now time.Time) bool {
	return c.isStale() || s.paused(c) || s.exchangeable(&c.grant[0]) || !c.free && now.Before(c.due) && s.changed.renewed(c.stack.Limits, c.known)
}

// paused reports whether a pause covers the slot of a call that this process received after the request. The caller holds mu.
func (s *Dispatcher) paused(c *Call) bool {
	if c.free || c.grant[0].Queued { // a queued call has no slot, and learns of pauses when it polls
		return false
	}
	is := func(e changed) bool { return c.known < e.pause && c.grant[0].At < e.until }
	return s.changed.any(c.stack.Limits, is) || c.binder == nil && s.changed.anyAllowance(c.stack.Limits, is)
}

// anyAllowance reports whether a condition holds for this process's news of an allowance that binds calls of some limits from now on. It is
// for those that nobody binds anew.
func (k knowledge) anyAllowance(limits []store.Limit, is func(changed) bool) bool {
	for key, e := range k {
		of := readings.PolicyOf(key.Policy)
		if of != key.Policy && is(e) && (of == "" && key.Scope == "" || slices.ContainsFunc(limits, func(l store.Limit) bool { return l.Policy == of && l.Scope == key.Scope })) {
			return true
		}
	}
	return false
}

// renewed reports whether slots of calls under some limits must be requested anew after more changes than these.
func (k knowledge) renewed(limits []store.Limit, known int64) bool {
	return k.any(limits, func(e changed) bool { return known < e.again })
}

// any reports whether a condition holds for this process's news of one of some limits, or of too many.
func (k knowledge) any(limits []store.Limit, is func(changed) bool) bool {
	return len(k) > 0 && (is(k[store.Key{}]) || slices.ContainsFunc(limits, func(l store.Limit) bool { return is(k[l.Key()]) }))
}

// pausedNow reports whether nothing is left of one of some limits. The caller holds mu.
func (s *Dispatcher) pausedNow(limits []store.Limit, now time.Time) bool {
	at := s.storeTime(now)
	return s.changed.any(limits, func(e changed) bool { return e.until > at })
}

// record records the pauses of the n-th change, and returns the pauses and resumptions that are new, the limits whose pauses have become
// longer, and those whose calls must request slots anew.
func (k knowledge) record(n int64, changes []store.Change) (news []store.Change, fresh, again map[store.Key]bool) {
	if len(k) >= maxChanged {
		maps.DeleteFunc(k, func(_ store.Key, e changed) bool { return e.until < changes[0].Now })
		k[store.Key{}] = changed{again: n} // calls of other limits poll once more than they need to
	}
	again, fresh = make(map[store.Key]bool), make(map[store.Key]bool)
	for _, one := range changes {
		key := one.Key()
		e := k[key]
		switch one.Kind {
		case store.Paused:
			if one.Now >= e.ended && one.Until > e.until {
				e.until, e.since, e.ended, e.pause = one.Until, one.Now, 0, n
				news, fresh[key] = append(news, one), true
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
			e.again, again[key] = n, true
		case store.Slowed:
			e.again, again[key] = n, true
		case store.Wake, store.EpochBegan, store.Resync:
			continue
		}
		k[key] = e
	}
	return news, fresh, again
}

// boundByAny reports whether one of some keys, or a change of all limits, concerns calls that some limits bind.
func boundByAny(limits []store.Limit, keys map[store.Key]bool) bool {
	return len(keys) > 0 && (keys[store.Key{}] || slices.ContainsFunc(limits, func(l store.Limit) bool { return keys[l.Key()] }))
}

// inOrder sorts calls by their slots. Queued calls come after them, in order of arrival.
func inOrder(all []*Call) []*Call {
	slot := func(c *Call) store.Instant {
		if c.grant[0].Queued {
			return math.MaxInt64
		}
		return c.grant[0].At
	}
	slices.SortFunc(all, func(a, b *Call) int { return cmp.Or(cmp.Compare(slot(a), slot(b)), cmp.Compare(a.came, b.came)) })
	return all
}

// overdue reports whether the slot passed so long ago that other calls may have counted on it. The caller holds mu.
func (s *Dispatcher) overdue(c *Call, now time.Time) bool {
	return now.Sub(c.requested) > c.grant[0].Wait()+c.grant[0].Slack+s.MaxLate
}

// exchangeable reports whether a grant must be exchanged.
func (s *Dispatcher) exchangeable(g *store.Grant) bool {
	e, ok := s.Store.(store.Exchanger)
	return ok && e.Exchangeable(g)
}

// returnPause is how long a call sleeps that waits until this process has returned to its store.
const returnPause = 5 * time.Millisecond

// returning reports whether a call has a slot that it is not to use before this process has returned to its store.
func (s *Dispatcher) returning(c *Call) bool {
	e, ok := s.Store.(store.Exchanger)
	return ok && c.grant[0].Local && e.Returning(&c.grant[0])
}

// Echoes reports whether this process receives from its store what it reports itself.
func (s *Dispatcher) Echoes() bool {
	if s.Member != nil {
		return s.Member.Echoes()
	}
	_, ok := s.Store.(store.Notifier)
	return ok
}

// isAsleep reports whether a call waits with a slot or a position, and no request for it is under way. The caller holds mu.
func (c *Call) isAsleep() bool {
	return c.waits && c.state == reserved && c.moving == nil && (c.grant[0].OK || c.grant[0].Queued)
}

// isQueued reports whether a call sleeps in the store's queue. The caller holds mu.
func (c *Call) isQueued() bool { return c.isAsleep() && c.grant[0].Queued }

// unreached reports whether a call has no slot only because the windows of a calendar are not known so far ahead. It polls when half of the
// time to the slot is over: a few times, however far away that is.
func unreached(call *store.Call, g *store.Grant) bool {
	return !g.OK && g.AtLeast && g.Wait() <= call.MaxWait
}
