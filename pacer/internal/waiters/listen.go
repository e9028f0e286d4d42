package waiters

import (
	"context"
	"slices"
	"sync"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// maxCatchUp bounds how many different limits are checked, in a few requests, after news may have been missed. A limit that is not
// checked may cost a refusal.
const maxCatchUp = 16 * readings.MaxLimits

// A subscription receives changes that other processes report, from when the first call waits until the Waiters are closed. A call that
// does not have to wait needs no changes: its store knows them.
type subscription struct {
	once sync.Once
	stop func() // nil if there is none
}

// end ends the subscription, which can no longer begin.
func (n *subscription) end() {
	if n.stop != nil {
		n.stop()
	}
}

// Listen has the Waiters listen to their store from now on, at the latest. Only calls that wait may call it, and the one that made the Waiters:
// Drain looks at the subscription when those are gone.
func (s *Waiters) Listen() {
	s.news.once.Do(func() {
		if n, ok := s.Store.(store.Notifier); ok {
			s.news.stop = n.Listen(s.Upstream, s.received)
		}
	})
}

// received applies news from the store. If the store may have been away, or has forgotten, received checks at once whether it still is
// what it was: calls that wait have slots that the store would give to others.
func (s *Waiters) received(n store.News) {
	ctx := context.Background()
	if n.Missed {
		s.retryAll()
		s.later(func() { s.catchUp(ctx) })
	}
	if len(n.Changes) == 1 && n.Changes[0].Kind == store.Resync {
		s.retryAll() // calls were queued in this process, where nothing wakes them any more
		s.later(func() { s.resync(ctx) })
		return
	}
	if s.Reread != nil && slices.ContainsFunc(n.Changes, func(c store.Change) bool { return c.Kind == store.EpochBegan }) {
		s.Reread()
	}
	if s.Member != nil && (n.Missed || slices.ContainsFunc(n.Changes, func(c store.Change) bool { return c.Kind == store.EpochBegan })) {
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

// Changed moves the waiters whose slots are no longer good: see later.
func (s *Waiters) Changed(ctx context.Context, changes []store.Change) {
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

// catchUp asks the store which limits of the waiters are paused.
func (s *Waiters) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	limits := s.limits(maxCatchUp)
	for first := true; first || len(limits) > 0; first = false {
		some := limits[:min(len(limits), readings.MaxLimits)]
		limits = limits[len(some):]
		seen, err := s.pausesOf(ctx, store.Stack{Upstream: s.Upstream, Limits: some})
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

// pausesOf asks the store which limits of a stack are paused.
func (s *Waiters) pausesOf(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	if s.Member != nil {
		return s.Member.Pauses(ctx, stack)
	}
	return s.Store.Status(ctx, stack)
}
