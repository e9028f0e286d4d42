package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// maxCatchUp bounds how many different limits are checked, in a few requests, after news may have been missed. A limit that is not
// checked may cost a refusal.
const maxCatchUp = 16 * readings.MaxLimits

// received applies news from the store. If the store may have been away, or has forgotten, received checks at once whether it still is
// what it was: calls that wait have slots that the store would give to others.
func (s *Dispatcher) received(n store.News) {
	ctx := context.Background()
	if n.Missed {
		s.retryAll()
		s.later(func() { s.catchUp(ctx) })
	}
	if len(n.Changes) == 1 && n.Changes[0].Kind == store.Resync {
		s.retryAll() // calls were queued in this process, where nothing wakes them any more
		s.later(func() { s.requeue(ctx, s.local(), false) })
		return
	}
	began := slices.ContainsFunc(n.Changes, func(c store.Change) bool { return c.Kind == store.EpochBegan })
	if s.Reread != nil && began {
		s.Reread()
	}
	if s.Member != nil && (n.Missed || began) {
		s.Member.Check()
	}
	if s.Reported != nil {
		var names []string
		for i := range n.Changes {
			if n.Changes[i].Kind == store.Paused {
				names = append(names, n.Changes[i].Policy)
			}
		}
		if len(names) > 0 {
			s.Reported(names)
		}
	}
	s.Changed(ctx, n.Changes)
}

// Changed moves the calls whose slots are no longer good: see later.
func (s *Dispatcher) Changed(ctx context.Context, changes []store.Change) {
	rest := changes[:0:0]
	for i := range changes {
		switch changes[i].Kind { //nolint:exhaustive // the others concern calls that wait
		case store.Wake:
			s.wake(changes[i].ID)
		case store.EpochBegan:
		default:
			rest = append(rest, changes[i])
		}
	}
	if changes = rest; len(changes) == 0 {
		return
	}
	caught, news := s.apply(changes)
	if s.Events != nil {
		s.Events.PausesChanged(news)
	}
	if len(caught) > 0 {
		slower := slices.ContainsFunc(changes, func(c store.Change) bool { return c.Kind == store.Slowed })
		s.later(func() { s.requeue(ctx, caught, slower) })
	}
}

// apply records pauses and returns the calls whose slots are no longer good, in the order of their slots, marked as moving: those
// whose slots fall inside a pause, and those of limits that were resumed or slowed down. It also returns which pauses and resumptions
// are news.
func (s *Dispatcher) apply(changes []store.Change) (caught []*Call, news []store.Change) {
	s.lock()
	defer s.unlock()
	news, fresh, again := s.changed.record(s.changes.Add(1), changes)
	for c := range s.waiting {
		if !c.inQueue() && c.grant[0].Queued && (boundByAny(c.stack.Limits, again) || c.standsBy(fresh)) {
			c.retry()
		}
	}
	caught = s.catchAll(func(c *Call) bool { return !c.grant[0].Queued && (boundByAny(c.stack.Limits, again) || s.paused(c)) }) // of others, see outdated
	for _, q := range s.queues.byStack {
		if !boundByAny(q.limits, again) {
			continue
		}
		q.expectSooner()
		s.look(q)
	}
	return caught, news
}

// wake makes a queued call poll now.
func (s *Dispatcher) wake(id int64) {
	s.lock()
	defer s.unlock()
	if c := s.byID[id]; c != nil {
		if q := c.queue; q != nil && c.isQueued() {
			turn := func(o *Call) bool { return o.isQueued() || q.inOrder && s.lacksPermits(o) }
			if i := slices.IndexFunc(q.out, turn); q.out[i] != c {
				s.swap(q.out[i], c) // it is the turn of the first
				c = q.out[i]
			}
		}
		c.retry()
	}
}

// retryAll makes all queued calls poll: a wake-up may not have been received.
func (s *Dispatcher) retryAll() {
	s.lock()
	defer s.unlock()
	for _, c := range s.byID {
		c.retry()
	}
}

// catchUp reads which limits of calls that wait are paused.
func (s *Dispatcher) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	pauses, limits := s.Store.Status, s.limits(maxCatchUp)
	if s.Member != nil {
		pauses = s.Member.Pauses
	}
	for first := true; first || len(limits) > 0; first = false {
		some := limits[:min(len(limits), readings.MaxLimits)]
		limits = limits[len(some):]
		seen, err := pauses(ctx, store.Stack{Upstream: s.Upstream, Limits: some})
		if err != nil || s.IsClosed() {
			return
		}
		var paused []store.Change
		for i := range seen.Limits {
			if l := &some[i]; seen.Limits[i].Paused > 0 {
				paused = append(paused, store.Change{Kind: store.Paused, Policy: l.Policy, Scope: l.Scope, Now: seen.Now, Until: seen.Limits[i].Paused})
			}
		}
		s.Changed(ctx, paused)
	}
}

// limits returns the distinct limits that bind calls that wait, at most n.
func (s *Dispatcher) limits(n int) []store.Limit {
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

// Paused reports whether nothing is left of one of some limits, as far as this process received.
func (s *Dispatcher) Paused(limits []store.Limit) bool {
	s.lock()
	defer s.unlock()
	return s.pausedNow(limits, time.Now())
}

// passOn gives the permits of a call that is over to the next call of this process that waits for the same ones. If all such calls have a
// request under way, it keeps the permits until one of them has its answer. It returns false if the permits must go back to the store.
func (s *Dispatcher) passOn(f *leases.Lease) (passed bool) {
	now, way := time.Now(), s.way.Longest()
	slice := f.Passed.Part * float64(max(leastSlice, min(maxSlice, sliceOfWays*way)))
	s.lock()
	defer s.unlock()
	keep := way / keptFor
	isOfUse := f.Passed.Queue != 0 && s.Echoes() && now.Sub(f.Passed.Since) <= time.Duration(slice) &&
		(s.queues.byStack[f.Passed.Queue] != nil || keep >= leastKept) && // without a queue, no call waits
		!s.IsClosed() && !s.pausedNow(f.Limits, now)
	if !isOfUse {
		s.oweHeld(f, now)
		return false
	}
	q := s.queueFor(f.Passed.Queue, f.Passed.Limits, true)
	if f.Kept = now; keep >= leastKept {
		f.Kept = now.Add(keep)
		time.AfterFunc(keep, func() {
			s.lock()
			defer s.unlock()
			s.passIdle(q) // the queue may serve another stack by now, which does no harm
			s.look(q)
		})
	}
	q.idle = append(q.idle, f)
	s.passIdle(q)
	return true
}

// returned makes calls with choices poll after permits went back to the store: one for each permit for which this process has no call in
// the store's queue. The store wakes the calls in its queue.
func (s *Dispatcher) returned(all []readings.Report) {
	s.lock()
	defer s.unlock()
	for q := range s.queues.pools {
		for i := range all {
			for _, n := range all[i].Notes {
				if n.Kind == store.NoteRelease {
					s.retryFor(q, all[i].Limits[n.Limit].Key())
				}
			}
		}
	}
}
