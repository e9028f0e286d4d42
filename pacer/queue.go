package pacer

import (
	"context"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"

	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
)

// Calls that wait are in a queue of their process, one for each stack, and hold no slot: see package waiters. The
// first call of the queue asks the store, for itself and for those behind it that fit. So ten thousand callers of a
// process have a few dozen slots between them, and a tenant with one call waits behind slots, not behind the queues
// of others.
//
// A slot that is held far ahead is in the way of all other calls: a pause, a cancellation or the end of a process has
// to move it, and what it leaves of a shared limit may be too short for any other call. That is why a process holds
// slots of a stack only up to H ahead.
//
// Between processes, the order is by window and not by call: the oldest caller of one process may wait for up to H
// longer than a younger one of another. A process with one caller is served as often as one with sixty, while both
// wait.
//
// Calls made by Pacer.Reserve hold their slots from the start, however far away, and so do those that ask for a later
// one (NotBefore): they are in no queue. A reservation in the future leaves a gap before it. Accounts remember their
// gaps, so that a later reservation may fill one and never delays an earlier one (conservative backfilling, as in
// batch schedulers). That is why a tenant with a long queue does not hold up the others.

// queues are the queues of a Pacer. They are guarded by waiters.mu.
type queues struct {
	seed    maphash.Seed
	byStack map[uint64]*queue
	swept   int          // how many queues there were after idle ones were last removed
	spare   []*queue     // not in use, kept for what they have allocated
	waiting atomic.Int64 // calls in all queues
}

// A queue holds the waiting calls of one stack that cost about the same.
type queue struct {
	hash   uint64
	limits []store.Limit
	window waiters.Window

	// Of a stack with a limit that is granted only shortly before the slot: its calls leave this queue for the
	// store's queue.
	deferred bool
	passes   bool // the process passes permits on
	line     waiters.Line
	out      []*Reservation  // calls that have left the queue, and have not gone yet, in order
	idle     []*leases.Lease // permits to be passed on, kept until a call of out has its answer

	head, tail *waiter
	length     int
	asking     bool           // a call asks the store, or is about to
	held       []*Reservation // calls with a slot that is still to come
	timer      *time.Timer    // has the first call ask when the furthest slot comes within reach
	last       store.Grant    // what binds the calls that have to wait, by the last answer

	// The request that is under way.
	calls  []store.Call
	grants []store.Grant
	served []*waiter
}

// A waiter is a call in a queue.
type waiter struct {
	call       *Reservation
	prev, next *waiter
	state      waiterState
	leaving    error         // why its owner wants to leave, which it cannot while a request carries it
	turn       chan struct{} // wakes its owner, which looks at the state
	err        error
}

func (w *waiter) wake() {
	select {
	case w.turn <- struct{}{}:
	default:
	}
}

type waiterState uint8

const (
	queued   waiterState = iota
	leads                // its owner must ask the store
	asked                // a request under way carries it
	answered             // it has a slot, or an error
	inherits             // it took over the position of another call of the process in the store's queue
)

// queueOf returns the queue of a reservation's stack, and makes one if there is none. It returns nil if another stack
// has the same hash by chance. The caller holds waiters.mu.
func (p *Pacer) queueOf(r *Reservation) *queue {
	return p.queueFor(p.queues.hash(r), r.stack.Limits, r.call[0].ID != 0)
}

// queueFor is queueOf for a hash and the limits of a stack, which the caller may reuse. The caller holds waiters.mu.
func (p *Pacer) queueFor(h uint64, limits []store.Limit, late bool) *queue {
	s := &p.queues
	q := s.byStack[h]
	switch {
	case q == nil:
		if s.byStack == nil {
			s.byStack = make(map[uint64]*queue)
		}
		if len(s.byStack) > 2*s.swept+64 {
			p.sweepQueues()
		}
		if n := len(s.spare); n > 0 {
			q, s.spare = s.spare[n-1], s.spare[:n-1]
		} else {
			q = &queue{}
		}
		q.hash, q.limits, q.deferred = h, append(q.limits[:0], limits...), late
		q.passes = q.deferred && p.direct == nil && passable(q.limits)
		s.byStack[h] = q
	case !(&store.Stack{Limits: q.limits}).Same(&store.Stack{Limits: limits}):
		return nil
	}
	return q
}

// hash returns the hash of calls that share a queue: those of one stack and one fair share whose costs are alike up
// to a factor of two. So a call of a high cost, which has to wait for longer, delays no other.
func (s *queues) hash(r *Reservation) uint64 {
	h := r.stack.Hash(s.seed)
	mix := func(n int64) { h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15 } //nolint:gosec // only equality matters
	mix(int64(bits.Len64(uint64(r.call[0].Cost))))                    //nolint:gosec // a cost is positive
	for _, cost := range r.call[0].Costs {
		mix(int64(bits.Len64(uint64(cost)))) //nolint:gosec // as above
	}
	mix(r.call[0].Flow)
	mix(r.call[0].Weight)
	return h
}

// sweepQueues removes the queues in which no call waits and of which no slot is still to come. The caller holds
// waiters.mu.
func (p *Pacer) sweepQueues() {
	s := &p.queues
	for _, q := range s.byStack {
		p.dropIfIdle(q)
	}
	s.swept = len(s.byStack)
}

// dropIfIdle removes a queue that no call needs. Its timer may fire late, and find another queue in its place.
func (p *Pacer) dropIfIdle(q *queue) {
	if p.queues.byStack[q.hash] == q && q.length == 0 && !q.asking && len(q.held) == 0 && len(q.out) == 0 && len(q.idle) == 0 {
		delete(p.queues.byStack, q.hash)
		if q.timer != nil {
			q.timer.Stop()
		}
		if len(p.queues.spare) < maxSpareQueues {
			q.window, q.line, q.last = waiters.Window{}, waiters.Line{}, store.Grant{}
			p.queues.spare = append(p.queues.spare, q)
		}
	}
}

// maxSpareQueues bounds how many unused queues are kept.
const maxSpareQueues = 16

// waitsInQueue reports whether a call waits in a queue of this process until its slot is near. A call that asked for
// a later slot (NotBefore) keeps its position by holding the slot.
func (a *ask) waitsInQueue(call *store.Call) bool { return a.waits && call.NotBefore == 0 }

// chargeInOrder charges the earliest slot for a call when it is the call's turn in the queue. When it returns, the
// grant is applied: see Pacer.granted.
func (p *Pacer) chargeInOrder(ctx context.Context, r *Reservation) error {
	s := &p.waiters
	s.mu.Lock()
	if p.isClosed() {
		s.mu.Unlock()
		return ErrClosed
	}
	q := p.queueOf(r)
	if q == nil {
		s.mu.Unlock()
		return p.chargeUnqueued(ctx, r)
	}
	if q.deferred {
		return p.chargeQueued(ctx, q, r) // unlocks s.mu
	}
	now := time.Now()
	// The first call behind a slot that is far ahead asks, too, if the distance of the next slot is not known yet: it
	// may be too far.
	if n, _ := p.askFor(q, now, 1); !q.asking && q.length == 0 && (n > 0 || q.window.Gap() == 0) {
		q.asking = true
		if p.lead(ctx, q, r, nil) { // unlocks s.mu
			return r.err
		}
		s.mu.Lock()
		if q = p.queueOf(r); q == nil { // the queue may have been dropped, and serve another stack
			s.mu.Unlock()
			return p.chargeUnqueued(ctx, r)
		}
		now = time.Now()
	}
	if err := p.tooFar(q, r, now, q.length); err != nil {
		s.mu.Unlock()
		return err
	}
	p.waiting.Add(1)
	defer p.waiting.Done()
	return p.stand(ctx, q, r, now) // unlocks s.mu
}

// chargeUnqueued charges the earliest slot for a call that no queue serves.
func (p *Pacer) chargeUnqueued(ctx context.Context, r *Reservation) error {
	if err := p.charge(ctx, r); err != nil || !r.grant[0].OK {
		return err
	}
	p.granted(r)
	return nil
}

// sinceMade returns an instant in the windows' time, counted from when the Pacer was made; 0 for instants before
// that.
func (p *Pacer) sinceMade(at time.Time) time.Duration { return max(0, at.Sub(p.made)) }

// askFor returns for how many of the waiting calls to ask the store now; if for none, when to try again at the
// earliest.
func (p *Pacer) askFor(q *queue, now time.Time, waiting int) (n int, again time.Duration) {
	return q.window.Ask(p.sinceMade(now), p.sinceMade(q.furthest()), waiting)
}

// furthest returns the furthest slot that is held.
func (q *queue) furthest() (at time.Time) {
	for _, r := range q.held {
		if slot := r.requested.Add(r.grant[0].Wait()); slot.After(at) {
			at = slot
		}
	}
	return at
}

// stand waits in the queue until the call has a slot, or cannot have one. The caller holds waiters.mu, which stand
// unlocks.
func (p *Pacer) stand(ctx context.Context, q *queue, r *Reservation, now time.Time) error {
	s := &p.waiters
	one := &waiter{call: r, turn: make(chan struct{}, 1)}
	r.grant[0] = store.Grant{Queued: true, Ahead: int64(q.length), Binds: q.last.Binds, Paused: q.last.Paused, Charges: r.grant[0].Charges}
	r.waiting(ctx, now, p.estimate(q, now, q.length))
	q.push(one)
	p.admit(q)
	p.queues.waiting.Add(1)
	s.mu.Unlock()
	p.listen()
	defer p.queues.waiting.Add(-1)

	var timeout <-chan time.Time
	if !r.latest.IsZero() {
		timer := time.NewTimer(time.Until(r.latest))
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		var cause error
		if one.leaving != nil { // only this goroutine sets it: the answer comes soon
			<-one.turn
		} else {
			select {
			case <-one.turn:
			case <-ctx.Done():
				cause = ctx.Err()
			case <-p.closed:
				cause = ErrClosed
			case <-timeout:
				cause = errTimeout
			}
		}
		s.mu.Lock()
		if cause == nil {
			cause = one.leaving
		}
		switch {
		case one.state == answered || one.state == inherits:
			s.mu.Unlock()
			return one.err
		case one.state == asked:
			one.leaving = cause
			s.mu.Unlock()
		case cause != nil:
			err := p.leaves(q, one, cause)
			s.mu.Unlock()
			return err
		case one.state == leads && q.deferred:
			s.mu.Unlock()
			return nil
		case one.state == leads:
			if p.lead(ctx, q, r, one) { // unlocks s.mu
				return r.err
			}
		default:
			s.mu.Unlock()
		}
	}
}

// errTimeout marks the end of MaxWait.
var errTimeout = &LimitError{}

// leaves takes a call out of the queue, and returns its error. The caller holds waiters.mu.
func (p *Pacer) leaves(q *queue, one *waiter, cause error) error {
	r := one.call
	switch {
	case one.state == leads && q.deferred:
		r.leaveQueue()
	case one.state == leads:
		q.asking = false
		fallthrough
	default:
		q.remove(one)
		p.admit(q)
	}
	if cause == error(errTimeout) || r.byDeadline && cause == context.DeadlineExceeded { //nolint:errorlint // the context returns it unwrapped
		now := time.Now()
		e := p.queueError(q, r, now, p.estimate(q, now, 0))
		e.Waited = r.call[0].MaxWait
		return e
	}
	return cause
}

// lead asks the store for a call and for those behind it in the queue that fit. The caller holds waiters.mu, and has
// set q.asking; lead unlocks. It returns true if the call is served: its grant is applied, or r.err is why it has
// none. Otherwise the call waits on.
func (p *Pacer) lead(ctx context.Context, q *queue, r *Reservation, one *waiter) (served bool) {
	s := &p.waiters
	began := time.Now()
	if one != nil {
		q.remove(one)
	}
	n, _ := p.askFor(q, began, 1+q.length)
	q.fill(r, began, n)
	s.mu.Unlock()

	stack := store.Stack{Upstream: p.upstream, Limits: q.limits}
	if p.direct == nil {
		ctx = context.WithoutCancel(ctx)
	}
	answeredAll := false
	defer func() {
		if !answeredAll { // the store panics, or a hook of its client: the caller handles that, but no other call must wait for it
			s.mu.Lock()
			p.answer(q, r, one, began, p.storeError("reserve", store.ErrUnreachable))
			s.mu.Unlock()
		}
	}()
	err := p.store.Reserve(ctx, stack, q.calls, q.grants)
	answeredAll = true
	if err != nil {
		err = p.storeError("reserve", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.answer(q, r, one, began, err)
}

// fill makes a request for a call and n−1 of those in the queue. The first may get any slot. The others get one
// within reach, and if n is 0, so does the first.
func (q *queue) fill(r *Reservation, now time.Time, n int) {
	reach, first := q.window.Reach(), Forever
	if n == 0 {
		first = reach
	}
	ask := func(r *Reservation, most time.Duration) {
		c := r.call[0]
		if !r.latest.IsZero() {
			c.MaxWait = max(0, r.latest.Sub(now))
		}
		c.MaxWait = min(c.MaxWait, most)
		q.calls, q.grants = append(q.calls, c), append(q.grants, store.Grant{Charges: r.grant[0].Charges[:0]})
	}
	ask(r, first)
	for len(q.calls) < n && q.head != nil {
		one := q.head
		q.remove(one)
		one.state = asked
		q.served = append(q.served, one)
		ask(one.call, reach)
	}
}

// answer applies the store's answer to the request under way, and lets the next call ask. It reports whether the call
// that led is served. The caller holds waiters.mu.
func (p *Pacer) answer(q *queue, r *Reservation, leader *waiter, began time.Time, err error) (served bool) {
	served = true
	now := time.Now()
	a := waiters.Answer{Asked: began.Sub(p.made), Answered: now.Sub(p.made), Calls: len(q.calls)}
	var left []*waiter // granted nothing, because that is too far ahead
	for i := range q.calls {
		call, one := r, leader
		if i > 0 {
			one = q.served[i-1]
			call = one.call
		}
		switch {
		case err != nil:
			call.err = err
		case !p.grant(q, &a, i, call, began):
			if served = served && i > 0; one != nil {
				left = append(left, one)
			}
			continue
		}
		if i > 0 {
			one.err, call.err, one.state = call.err, nil, answered
			one.wake()
		}
	}
	for _, one := range slices.Backward(left) {
		one.state = queued
		q.pushFront(one)
		if one.leaving != nil {
			one.wake()
		}
	}
	if err == nil {
		before := q.window.Gap()
		q.window.Answered(&a)
		if gap := q.window.Gap(); gap > before+before/8 {
			p.refuseFar(q, now)
		}
	}
	clear(q.calls)
	clear(q.grants)
	clear(q.served)
	q.calls, q.grants, q.served, q.asking = q.calls[:0], q.grants[:0], q.served[:0], false
	p.admit(q)
	return served
}

// grant gives a call the store's answer, unless the call has to wait on because its slot is still too far ahead. It
// adds to a what the answer shows of the window. The caller holds waiters.mu.
func (p *Pacer) grant(q *queue, a *waiters.Answer, i int, call *Reservation, began time.Time) bool {
	g := &q.grants[i]
	at := began.Add(g.Wait()).Sub(p.made)
	if g.Wait() > 0 || !g.OK {
		a.Waits, a.Paused = true, a.Paused || g.Paused || g.Binds == store.BindsUpstream
		q.last = store.Grant{Binds: g.Binds, Paused: g.Paused}
	}
	if !g.OK {
		if a.Next == 0 || at < a.Next {
			a.Next = at
		}
		if call.latest.IsZero() || g.Wait() <= call.latest.Sub(began) {
			return false
		}
		call.grant[0] = *g
		call.err = p.notYetIn(call, began)
		return true
	}
	call.grant[0], call.requested = *g, began
	p.granted(call)
	if a.Granted == 0 || at < a.First {
		a.First = at
	}
	a.Granted, a.Last = a.Granted+1, max(a.Last, at)
	if g.Wait() > 0 {
		q.held = append(q.held, call)
		call.queue = q
	}
	return true
}

// notYetIn makes the error for the slot in r.grant, which is too far away, for a call that was in the queue until a
// request carried it.
func (p *Pacer) notYetIn(r *Reservation, began time.Time) *LimitError {
	e := p.notYet(r)
	if !r.latest.IsZero() && r.call[0].MaxWait < Forever {
		e.Waited = max(0, r.call[0].MaxWait-r.latest.Sub(began))
	}
	return e
}

// admit lets the first call of the queue ask the store, now or when the furthest slot comes within reach. The caller
// holds waiters.mu.
func (p *Pacer) admit(q *queue) {
	if q.asking {
		return
	}
	if q.length == 0 {
		p.dropIfIdle(q)
		return
	}
	now := time.Now()
	var d time.Duration
	if q.deferred {
		again := p.leaveQueue(q, now)
		if again.IsZero() {
			return
		}
		d = again.Sub(now)
	} else {
		n, again := p.askFor(q, now, q.length)
		if n > 0 {
			q.asking = true
			q.head.state = leads
			q.head.wake()
			return
		}
		d = again - now.Sub(p.made)
	}
	if q.timer != nil {
		q.timer.Reset(d)
		return
	}
	q.timer = time.AfterFunc(d, func() {
		p.waiters.mu.Lock()
		defer p.waiters.mu.Unlock()
		p.admit(q)
	})
}

// leaveQueue records that a reservation's slot is no longer to come: it was used or given back. The caller holds
// waiters.mu.
func (r *Reservation) leaveQueue() {
	q := r.queue
	if q == nil {
		return
	}
	r.queue = nil
	if i := slices.Index(q.held, r); i >= 0 {
		q.held = slices.Delete(q.held, i, i+1)
	}
	if i := slices.Index(q.out, r); i >= 0 {
		q.out = slices.Delete(q.out, i, i+1)
		if r.state == used {
			q.line.Served(r.pacer.sinceMade(time.Now()), r.pacer.way.Reach(), q.length)
		}
	}
	r.pacer.passIdle(q)
	r.pacer.admit(q)
}

// estimate returns about how long a call waits that has this many before it.
func (p *Pacer) estimate(q *queue, now time.Time, ahead int) time.Duration {
	if q.deferred {
		return q.line.Estimate(len(q.out) + ahead)
	}
	at := p.sinceMade(now)
	return q.window.Estimate(at, p.sinceMade(q.furthest()), ahead) - at
}

// tooFar returns the error of a call that has this many before it, if it could not go in time, as things are.
func (p *Pacer) tooFar(q *queue, r *Reservation, now time.Time, ahead int) error {
	if r.latest.IsZero() || q.window.Gap() == 0 { // how soon a queue of the store moves is unknown
		return nil
	}
	wait := p.estimate(q, now, ahead)
	if wait <= r.latest.Sub(now) {
		return nil
	}
	return p.queueError(q, r, now, wait)
}

// queueError makes the error of a call whose slot is about this far away.
func (p *Pacer) queueError(q *queue, r *Reservation, now time.Time, wait time.Duration) *LimitError {
	r.grant[0].Binds, r.grant[0].Paused, r.grant[0].Queued = q.last.Binds, q.last.Paused, false
	r.grant[0].Now, r.grant[0].At = 0, store.Instant(wait.Microseconds())
	e := p.notYetIn(r, now)
	e.About = true
	return e
}

// refuseFar refuses the calls in the queue that cannot go in time, as things are now. The caller holds waiters.mu.
func (p *Pacer) refuseFar(q *queue, now time.Time) {
	ahead := 0
	for one := q.head; one != nil; {
		next := one.next
		if err := p.tooFar(q, one.call, now, ahead); err != nil && one.state == queued {
			q.remove(one)
			one.err, one.state = err, answered
			one.wake()
		} else {
			ahead++
		}
		one = next
	}
}

func (q *queue) push(one *waiter) {
	if one.prev = q.tail; q.tail == nil {
		q.head = one
	} else {
		q.tail.next = one
	}
	q.tail = one
	q.length++
}

func (q *queue) pushFront(one *waiter) {
	if one.next = q.head; q.head == nil {
		q.tail = one
	} else {
		q.head.prev = one
	}
	q.head = one
	q.length++
}

func (q *queue) remove(one *waiter) {
	if one.prev == nil {
		q.head = one.next
	} else {
		one.prev.next = one.next
	}
	if one.next == nil {
		q.tail = one.prev
	} else {
		one.next.prev = one.prev
	}
	one.prev, one.next = nil, nil
	q.length--
}
