package pacer

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// A waiterSet holds the calls that wait in this process, and until when each limit is paused, as far as this process
// received pauses. It moves the calls whose slot falls inside a pause behind it.
//
// A pause can arrive between the moment when the store granted a slot and the moment when its owner begins to wait.
// So an owner that begins to wait looks at the pauses, and a pause looks at the waiters, under one lock. All
// comparisons are between instants of the store's clock.
type waiterSet struct {
	mu      sync.Mutex
	waiting map[*Reservation]struct{}
	queued  map[int64]*Reservation // by the call's ID: those that may be queued
	// The last calls that were woken and are none of those: calls of other processes, or calls that are about to be
	// queued.
	earlyWakes [64]int64
	earlyWake  int
	pauses     map[store.Key]store.Instant
	again      map[*Reservation]struct{} // reservations that were moving when something changed: they may have to move once more
	todo       []func()                  // see Pacer.later
	doing      bool
}

func (s *waiterSet) enter(ctx context.Context, r *Reservation) {
	s.mu.Lock()
	if s.waiting == nil {
		s.waiting = make(map[*Reservation]struct{})
	}
	s.waiting[r] = struct{}{}
	if id := r.call[0].ID; id != 0 {
		if s.queued == nil {
			s.queued = make(map[int64]*Reservation)
		}
		s.queued[id] = r
		if s.wasWoken(r) {
			r.due = time.Now()
		}
	}
	if r.wake == nil {
		r.wake = make(chan struct{}, 1)
	}
	caught := s.catch(r)
	if q := r.queue; q != nil {
		r.pacer.passIdle(q)
	}
	s.mu.Unlock()
	if caught {
		r.pacer.move(ctx, []*Reservation{r})
	}
}

func (s *waiterSet) leave(r *Reservation) {
	s.mu.Lock()
	delete(s.waiting, r)
	delete(s.again, r)
	delete(s.queued, r.call[0].ID)
	s.mu.Unlock()
}

// catch marks r as moving if a pause covers its slot. The goroutine that catches a reservation must move it. The
// caller holds mu.
func (s *waiterSet) catch(r *Reservation) bool {
	if r.state != reserved || r.moving != nil || !s.paused(r) {
		return false
	}
	r.catch()
	return true
}

// catch marks a reservation as moving. The caller holds pacer.waiters.mu.
func (r *Reservation) catch() { r.moving, r.caught = make(chan struct{}), true }

// paused reports whether a pause that this process received covers the slot of r. The caller holds mu.
func (s *waiterSet) paused(r *Reservation) bool {
	if len(s.pauses) == 0 || r.grant[0].Queued { // a queued call has no slot, and learns of pauses when it asks again
		return false
	}
	if s.pauses[store.Key{}] > r.grant[0].At {
		return true
	}
	for i := range r.stack.Limits {
		l := &r.stack.Limits[i]
		if s.pauses[l.Key()] > r.grant[0].At {
			return true
		}
	}
	return false
}

// apply records pauses and returns the waiters whose slots are no longer good, in the order of their slots, marked as
// moving: those whose slots fall inside a pause, and those of limits that were resumed or slowed down. It also
// returns which pauses and resumptions are news.
func (s *waiterSet) apply(changes []store.Change) (caught []*Reservation, news []store.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, t := range s.pauses {
		if t < changes[0].Now {
			delete(s.pauses, k)
		}
	}
	again, fresh := make(map[store.Key]bool), make(map[store.Key]bool)
	for _, c := range changes {
		k := c.Key()
		switch c.Kind {
		case store.Paused:
			if s.pauses == nil {
				s.pauses = make(map[store.Key]store.Instant)
			}
			if c.Until > s.pauses[k] {
				s.pauses[k], news = c.Until, append(news, c)
				fresh[k] = true
			}
		case store.Resumed:
			if _, was := s.pauses[k]; was {
				delete(s.pauses, k)
				news = append(news, c)
			}
			again[k] = true
		case store.Slowed:
			again[k] = true
		case store.Wake, store.EpochBegan, store.Resync:
		}
	}
	for r := range s.waiting {
		if r.grant[0].Queued {
			if r.boundByAny(again) {
				s.retry(r)
			}
			continue
		}
		switch concerned := r.boundByAny(again); {
		case r.state != reserved:
		case r.moving != nil:
			if concerned || r.boundByAny(fresh) {
				s.moveAgain(r)
			}
		case concerned || s.paused(r):
			r.catch()
			caught = append(caught, r)
		}
	}
	return inOrder(caught), news
}

// moveAgain records that something has changed for a reservation that is moving: the slot that it gets may no longer
// be good. The caller holds mu.
func (s *waiterSet) moveAgain(r *Reservation) {
	if s.again == nil {
		s.again = make(map[*Reservation]struct{})
	}
	s.again[r] = struct{}{}
}

// A localWaiters holds the waiters of one stack whose slots this process granted locally, and the receipts of those
// slots, which identify them: a reservation may serve another call by the time it is looked at.
type localWaiters struct {
	stack    store.Stack
	all      []*Reservation
	receipts []any
}

// local returns the waiters whose slots this process granted locally and are still to come, by their stacks, each in
// the order of their slots.
func (s *waiterSet) local(exchangeable func(*store.Grant) bool) []*localWaiters {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Reservation
	for r := range s.waiting {
		if r.state == reserved && r.moving == nil && exchangeable(&r.grant[0]) {
			r.caught = true // it must not serve another call while it is looked at
			all = append(all, r)
		}
	}
	found := groups(inOrder(all))
	ls := make([]*localWaiters, 0, len(found))
	for _, group := range found {
		one := &localWaiters{stack: group[0].stack.Clone(), all: group}
		for _, r := range group {
			one.receipts = append(one.receipts, r.grant[0].Receipt)
		}
		ls = append(ls, one)
	}
	return ls
}

// boundByAny reports whether one of some keys, or a change of the whole upstream, concerns r.
func (r *Reservation) boundByAny(keys map[store.Key]bool) bool {
	if len(keys) == 0 {
		return false
	}
	if keys[store.Key{}] {
		return true
	}
	for i := range r.stack.Limits {
		if keys[r.stack.Limits[i].Key()] {
			return true
		}
	}
	return false
}

func inOrder(rs []*Reservation) []*Reservation {
	slices.SortFunc(rs, func(a, b *Reservation) int { return cmp.Compare(a.grant[0].At, b.grant[0].At) })
	return rs
}

// limits returns the distinct limits that bind the waiters, at most n.
func (s *waiterSet) limits(n int) []store.Limit {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[store.Key]bool)
	var all []store.Limit
	for r := range s.waiting {
		for _, l := range r.stack.Limits {
			if k := (l.Key()); !seen[k] && len(all) < n {
				seen[k] = true
				all = append(all, l)
			}
		}
	}
	return all
}

func stackKey(stack *store.Stack) string {
	var b strings.Builder
	for i := range stack.Limits {
		b.WriteString(stack.Limits[i].Policy + "\n" + stack.Limits[i].Scope + "\n")
	}
	return b.String()
}

// waitingCalls returns how many calls wait for each limit, or for the end of a pause of the whole upstream.
func (p *Pacer) waitingCalls() map[store.Key]int64 {
	all := make(map[store.Key]int64)
	add := func(limits []store.Limit, binds int, paused bool, n int64) {
		switch {
		case binds >= 0 && binds < len(limits):
			all[limits[binds].Key()] += n
		case paused:
			all[store.Key{}] += n
		default: // only NotBefore holds it
		}
	}
	p.waiters.mu.Lock()
	defer p.waiters.mu.Unlock()
	for r := range p.waiters.waiting {
		if r.since != 0 { // otherwise it is about to wait
			add(r.stack.Limits, r.waitsFor(), r.binding.paused, 1)
		}
	}
	for _, q := range p.queues.byStack {
		if q.length > 0 {
			add(q.limits, q.last.Binds, q.last.Paused || q.last.Binds == store.BindsUpstream, int64(q.length))
		}
	}
	return all
}
