package simulate

import (
	"math"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
)

// A queueKey identifies the queue of a process and a stack. All calls of a load cost the same.
type queueKey struct {
	process int
	stack   *stack
	cost    int64
}

// A queue is the calls of one process that wait for slots of one stack, as in a Pacer: see package dispatch.
type queue struct {
	*sim

	stack   *stack
	window  dispatch.Window
	waiting []*call
	held    []store.Instant // slots that are still to come
	asking  bool
	turn    int // counts how often its next request was scheduled
	binds   int // the limit that made the last one wait

	calls  []store.Call
	grants []store.Grant
}

// enqueue adds a call to the queue of its process.
func (s *sim) enqueue(c *call, process int) {
	key := queueKey{process, c.stack, c.call.Cost}
	q := s.queues[key]
	if q == nil {
		q = &queue{sim: s, stack: c.stack, binds: store.BindsNothing}
		s.queues[key] = q
	}
	n, _ := q.askFor(1)
	if !q.asking && len(q.waiting) == 0 && (n > 0 || q.window.Gap() == 0) {
		q.waiting = append(q.waiting, c)
		q.ask(n)
		return
	}
	if wait := q.estimate(len(q.waiting)); q.window.Gap() > 0 && c.latest != math.MaxInt64 && s.now+wait > c.latest {
		c.binds = q.binds
		s.requested++ // it takes time, too, and may come back at once
		s.refuse(c, wait.Sub(0))
		return
	}
	q.waiting = append(q.waiting, c)
	q.admit()
}

// passed returns the time since the start, as windows count it.
func (q *queue) passed(at store.Instant) time.Duration { return at.Sub(q.begun) }

// furthest returns the furthest held slot.
func (q *queue) furthest() store.Instant {
	q.held = slices.DeleteFunc(q.held, func(at store.Instant) bool { return at <= q.now })
	furthest := q.begun
	for _, at := range q.held {
		furthest = max(furthest, at)
	}
	return furthest
}

// askFor returns how many of some calls to request now; if none, the earliest time of the next request.
func (q *queue) askFor(waiting int) (n int, again store.Instant) {
	n, after := q.window.Ask(q.passed(q.now), q.passed(q.furthest()), waiting)
	return n, q.begun + Duration(after).micros()
}

// estimate estimates how long a call waits behind so many.
func (q *queue) estimate(ahead int) store.Instant {
	now := q.passed(q.now)
	return Duration(q.window.Estimate(now, q.passed(q.furthest()), ahead) - now).micros()
}

// admit requests slots for waiting calls, now or when the furthest slot comes within reach.
func (q *queue) admit() {
	q.turn++
	if q.asking || len(q.waiting) == 0 {
		return
	}
	n, again := q.askFor(len(q.waiting))
	if n > 0 {
		q.ask(n)
		return
	}
	turn := q.turn
	q.at(again, func() {
		if q.turn == turn {
			q.admit()
		}
	})
}

// ask requests slots for the first n calls. The first may get any slot, the others one within reach; if n is 0, the request is only for the
// first, which gets one within reach.
func (q *queue) ask(n int) {
	q.asking = true
	began := q.now
	requested := slices.Clone(q.waiting[:max(1, n)])
	q.waiting = slices.Delete(q.waiting, 0, len(requested))
	reach := q.window.Reach()
	q.at(q.now+q.half, func() {
		q.calls, q.grants = q.calls[:0], append(q.grants[:0], make([]store.Grant, len(requested))...)
		for i, c := range requested {
			one := c.call
			if c.latest != math.MaxInt64 {
				one.MaxWait = max(0, c.latest.Sub(began))
			}
			if i > 0 || n == 0 {
				one.MaxWait = min(one.MaxWait, reach)
			}
			q.calls = append(q.calls, one)
		}
		q.requested++
		if q.err = q.store.Reserve(q.ctx, q.stack.Stack, q.calls, q.grants); q.err == nil {
			q.answered(requested, began)
		}
	})
}

// answered handles the store's answer, at its time; the process knows it later.
func (q *queue) answered(requested []*call, began store.Instant) {
	a := dispatch.Answer{Requested: q.passed(began), Answered: q.passed(q.now + q.half), Calls: len(requested)}
	var left []*call
	var held []store.Instant
	for i, c := range requested {
		g := &q.grants[i]
		// The process knows how far away the slot is, but not when the store decided: it counts from the answer.
		at := q.passed(g.At + q.half)
		if g.Wait() > 0 && g.Binds >= 0 {
			q.binds = g.Binds
		}
		a.Paused = a.Paused || g.Paused > 0
		switch {
		case g.OK:
			if a.Granted == 0 || at < a.First {
				a.First = at
			}
			a.Granted, a.Last, a.Waits = a.Granted+1, max(a.Last, at), a.Waits || g.Wait() > 0
			if g.Wait() > 0 {
				held = append(held, g.At+q.half)
			}
			q.answer(c, g)
		case c.latest == math.MaxInt64 || g.Wait() <= c.latest.Sub(began):
			if a.Waits = true; a.Next == 0 || at < a.Next {
				a.Next = at
			}
			left = append(left, c)
		default:
			a.Waits = true
			q.answer(c, g)
		}
	}
	q.at(q.now+q.half, func() {
		q.asking = false
		q.held = append(q.held, held...)
		q.waiting = append(left, q.waiting...)
		q.window.Answered(&a)
		q.admit()
	})
}
