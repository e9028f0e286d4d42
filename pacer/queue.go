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

// Calls that wait stand in a queue of their process, one for each stack, and hold no slot: see package waiters. The first in the
// queue asks the store, for itself and those behind it that fit.

// queues are those of a Pacer. They are under sleepers.mu.
type queues struct {
	seed    maphash.Seed
	byStack map[uint64]*queue
	swept   int          // how many there were after idle ones were last removed
	spare   []*queue     // not in use, kept for what they have allocated
	waiting atomic.Int64 // calls in all queues
}

// A queue is the waiting calls of one stack that cost about the same.
type queue struct {
	hash   uint64
	limits []store.Limit
	window waiters.Window

	// Of a stack with a limit that is not given far ahead: its calls leave the queue for the store's own line.
	deferred bool
	passes   bool // the process passes places on
	line     waiters.Line
	out      []*Reservation  // that have left the queue, and have not gone yet, in order
	idle     []*leases.Lease // places to be passed on, which are kept until one of out has its answer

	head, tail *waiter
	length     int
	asking     bool           // somebody asks the store, or is about to
	held       []*Reservation // reserved, and their slots are still to come
	timer      *time.Timer    // asks for the first in the queue when the furthest slot comes within reach
	last       store.Grant    // what the last answer said of those that have to wait: what binds them

	// Of the request that is under way.
	calls  []store.Call
	grants []store.Grant
	served []*waiter
}

// A waiter is a call in a queue.
type waiter struct {
	call       *Reservation
	prev, next *waiter
	state      waiterState
	leaving    error         // why its owner wants to leave, who cannot while it is asked for
	turn       chan struct{} // wakes its owner, who looks at the state
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
	leads                // its owner is to ask the store
	asked                // somebody asks the store for it
	answered             // it has a slot, or an error
	inherits             // it stands in the store's line, where another call of the process stood
)

// queueOf returns the queue of a reservation's stack, made if there is none; nil if another stack has its number by chance. The
// caller holds sleepers.mu.
func (p *Pacer) queueOf(r *Reservation) *queue {
	return p.queueFor(p.queues.hash(r), r.stack.Limits, r.call[0].ID != 0)
}

// queueFor is queueOf for a number and the limits of a stack, which may serve again. The caller holds sleepers.mu.
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

// hash returns a number for calls that share a queue: those of one stack, and of one fair share, whose costs are alike up to a factor
// of two, so that a call of a high cost, which has to wait for longer, is in no other's way.
func (s *queues) hash(r *Reservation) uint64 {
	h := r.stack.Hash(s.seed)
	mix := func(n int64) { h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15 } //nolint:gosec // what counts is that equal ones stay so
	mix(int64(bits.Len64(uint64(r.call[0].Cost))))                    //nolint:gosec // a cost is positive
	for _, cost := range r.call[0].Costs {
		mix(int64(bits.Len64(uint64(cost)))) //nolint:gosec // as above
	}
	mix(r.call[0].Flow)
	mix(r.call[0].Weight)
	return h
}

// sweepQueues removes the queues in which nobody waits and of which no slot is still to come. The caller holds sleepers.mu.
func (p *Pacer) sweepQueues() {
	s := &p.queues
	for _, q := range s.byStack {
		p.dropIfIdle(q)
	}
	s.swept = len(s.byStack)
}

// dropIfIdle removes a queue that nobody needs. Its timer may come too late, and find another one in its place.
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

// maxSpareQueues bounds how many queues are kept that are not in use.
const maxSpareQueues = 16

// waitsInQueue reports whether a call waits in a queue of this process until its slot is near. One that asked for a later slot
// (NotBefore) keeps its place by holding it.
func (a *ask) waitsInQueue(call *store.Call) bool { return a.waits && call.NotBefore == 0 }

// chargeInTurn charges the earliest slot for a call when its turn in the queue has come. When it returns, the grant is taken: see
// Pacer.got.
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
		if err := p.charge(ctx, r); err != nil || !r.grant[0].OK {
			return err
		}
		p.granted(r)
		return nil
	}
	if q.deferred {
		return p.chargeQueued(ctx, q, r) // which unlocks
	}
	now := time.Now()
	// The first one behind a slot that is far ahead asks, too, if it is not known yet how far the next one is: it may be too far.
	if n, _ := p.askFor(q, now, 1); !q.asking && q.length == 0 && (n > 0 || q.window.Gap() == 0) {
		q.asking = true
		if p.lead(ctx, q, r, nil) { // which unlocks
			return r.err
		}
		s.mu.Lock()
		now = time.Now()
	}
	if err := p.tooFar(q, r, now, q.length); err != nil {
		s.mu.Unlock()
		return err
	}
	p.waiting.Add(1)
	defer p.waiting.Done()
	return p.stand(ctx, q, r, now) // which unlocks
}

// sinceMade returns an instant as the windows count it; 0 for those before the Pacer was made.
func (p *Pacer) sinceMade(at time.Time) time.Duration { return max(0, at.Sub(p.made)) }

// askFor returns for how many of some calls the store is to be asked now; if for none, then not before again.
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

// stand waits in the queue until the call has a slot, or cannot have one. The caller holds sleepers.mu, which stand unlocks.
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
		if one.leaving != nil { // set by this goroutine alone: the answer comes soon
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
			if p.lead(ctx, q, r, one) { // which unlocks
				return r.err
			}
		default:
			s.mu.Unlock()
		}
	}
}

// errTimeout marks the end of MaxWait.
var errTimeout = &LimitError{}

// leaves takes a call out of the queue, and returns its error. The caller holds sleepers.mu.
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
	if cause == error(errTimeout) || r.byDeadline && cause == context.DeadlineExceeded { //nolint:errorlint // as the context says it
		now := time.Now()
		e := p.queueError(q, r, now, p.estimate(q, now, 0))
		e.Waited = r.call[0].MaxWait
		return e
	}
	return cause
}

// lead asks the store for a call and those behind it in the queue that fit. The caller holds sleepers.mu, and has set q.asking;
// lead unlocks. It returns true if the call is served: its grant is taken, or r.err says why it has none. Otherwise it waits on.
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
		if !answeredAll { // the store panics, or a hook of its client: that is the caller's, but nobody else must wait for it
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

// fill makes a request for a call and n−1 of those in the queue. The first may get any slot; the others get one within reach, and
// if n is 0, so does the first.
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

// answer takes the store's answer to the request under way, and lets the next one ask. It reports whether the call that led is
// served. The caller holds sleepers.mu.
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

// grant gives a call the store's answer, unless it is to wait on because its slot is too far ahead as yet. It adds to what the
// answer says of the window. The caller holds sleepers.mu.
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

// notYetIn makes the error for the slot in r.grant, which is too far away, for a call that has stood in the queue until it was asked for.
func (p *Pacer) notYetIn(r *Reservation, began time.Time) *LimitError {
	e := p.notYet(r)
	if !r.latest.IsZero() && r.call[0].MaxWait < Forever {
		e.Waited = max(0, r.call[0].MaxWait-r.latest.Sub(began))
	}
	return e
}

// admit lets the first in the queue ask the store, now or when the furthest slot comes within reach. The caller holds sleepers.mu.
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

// leaveQueue notes that a reservation's slot is not to come any more: it was used or given back. The caller holds sleepers.mu.
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

// estimate returns about how long a call waits that has so many before it.
func (p *Pacer) estimate(q *queue, now time.Time, ahead int) time.Duration {
	if q.deferred {
		return q.line.Estimate(len(q.out) + ahead)
	}
	at := p.sinceMade(now)
	return q.window.Estimate(at, p.sinceMade(q.furthest()), ahead) - at
}

// tooFar returns the error of a call that has so many before it, if it could not go in time, as things are.
func (p *Pacer) tooFar(q *queue, r *Reservation, now time.Time, ahead int) error {
	if r.latest.IsZero() || q.window.Gap() == 0 { // of a line, nobody can say how soon it moves
		return nil
	}
	wait := p.estimate(q, now, ahead)
	if wait <= r.latest.Sub(now) {
		return nil
	}
	return p.queueError(q, r, now, wait)
}

// queueError makes the error of a call whose slot is about so far away.
func (p *Pacer) queueError(q *queue, r *Reservation, now time.Time, wait time.Duration) *LimitError {
	r.grant[0].Binds, r.grant[0].Paused, r.grant[0].Queued = q.last.Binds, q.last.Paused, false
	r.grant[0].Now, r.grant[0].At = 0, store.Instant(wait.Microseconds())
	e := p.notYetIn(r, now)
	e.About = true
	return e
}

// refuseFar refuses the calls in the queue that cannot go in time, as things are now. The caller holds sleepers.mu.
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
