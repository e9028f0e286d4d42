package pacer

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/pacer/internal/leases"

	"github.com/headway-go/headway/pacer/internal/feedback"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// storeTimeout bounds the store's operations that go on when the context of a call ends: giving slots back, and
// moving behind a pause.
const storeTimeout = 5 * time.Second

// A Reservation is a slot that was granted and charged. Use it once: either [Reservation.Wait], or sleep
// [Reservation.Delay] and go, or [Reservation.Cancel]. It is safe for concurrent use.
//
// Only Wait moves a reservation: behind a pause that is reported while it waits, to a new slot if it wakes far too
// late, and forward in a queue.
type Reservation struct {
	pacer      *Pacer
	stack      store.Stack
	call       [1]store.Call // the request to the store
	latest     time.Time     // no later slot will do; zero for Forever
	notBefore  time.Time     // the call wants to go no earlier
	byDeadline bool          // latest comes from the context's deadline

	// The fields below are under pacer.waiters.mu from when the reservation is handed out. Small fields are adjacent,
	// so that a Reservation is no larger than it needs to be: most calls make one.
	state     reservationState
	caught    bool // it was moved, or may be: goroutines other than its owner may still look at it
	woken     bool // it was woken while it is moving
	closed    bool // the answer was reported
	paid      bool // the cost was settled
	grant     [1]store.Grant
	requested time.Time     // when the store was asked for the slot, which is no earlier than this plus the grant's wait
	due       time.Time     // when to go: the slot and jitter
	moving    chan struct{} // closed when a move that is under way is done; nil if none is
	err       error         // why it could not be moved
	wake      chan struct{} // wakes a waiter when it was moved; nil before it waits
	lease     *leases.Lease // its permits; nil if it has none
	queue     *queue        // the queue whose window has its slot, until the slot comes; nil if none
	since     time.Duration // when it began to wait, since the Pacer was made; 0 if it did not
	binding   binding       // what it waits for
	emitted   *emitted      // what hooks received of the wait; nil if there are no hooks, or it does not wait

	tracked feedback.Tracked // what pacer.usage knows of it, if it is tracked

	room struct { // room for what most calls need, to save allocations
		charges [fewLimits]store.Charge
	}
}

type reservationState uint8

const (
	reserved reservationState = iota
	used
	givenBack
)

// Delay returns how long from now until the call may go, at least 0. For a queued call that is not known: Delay is
// then how long until [Reservation.Wait], which such a call needs, asks again.
func (r *Reservation) Delay() time.Duration {
	r.pacer.waiters.mu.Lock()
	defer r.pacer.waiters.mu.Unlock()
	return max(0, time.Until(r.due))
}

// Policy returns the name of the policy that decided the slot; "" if none did.
func (r *Reservation) Policy() string {
	r.pacer.waiters.mu.Lock()
	defer r.pacer.waiters.mu.Unlock()
	if i := r.grant[0].Binds; i >= 0 {
		return r.stack.Limits[i].Policy
	}
	return ""
}

// Slot returns the instant, by the store's clock, from which the call may go, and how much later it may go and still
// conform to every policy. Both change if the reservation moves. For a queued call they mean nothing.
func (r *Reservation) Slot() (at store.Instant, slack time.Duration) {
	r.pacer.waiters.mu.Lock()
	defer r.pacer.waiters.mu.Unlock()
	return r.grant[0].At, r.grant[0].Slack
}

// Cancel gives the slot back, so that another call can have it. It does nothing if the reservation was used or
// cancelled before. It uses the context's values, but neither its deadline nor its end: what was charged is given
// back even if the context is done. It returns a [*StoreError] if the store fails, in which case the slot is lost.
func (r *Reservation) Cancel(ctx context.Context) error {
	s := &r.pacer.waiters
	s.mu.Lock()
	r.settle()
	if r.state != reserved {
		s.mu.Unlock()
		return nil
	}
	r.state = givenBack // from here on, the grant does not change
	r.leaveQueue()
	r.pacer.usage.Leave(&r.tracked, &r.call[0])
	inLine, lease := r.grant[0].Queued, r.lease
	s.mu.Unlock()
	r.pacer.leases.Forget(lease)
	if inLine {
		r.pacer.leaveStoreQueue(r)
		return nil
	}
	if r.pacer.direct == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
	}
	if err := r.pacer.store.Cancel(ctx, r.stack, r.grant[:]); err != nil {
		return r.pacer.storeError("cancel", err)
	}
	return nil
}

// settle waits while a move is under way, because the slot is not known until then. The caller holds
// pacer.waiters.mu, and holds it again afterwards.
func (r *Reservation) settle() {
	for r.moving != nil {
		moved := r.moving
		r.pacer.waiters.mu.Unlock()
		<-moved
		r.pacer.waiters.mu.Lock()
	}
}

// Wait sleeps until the call may go, and returns nil: go now. If the context ends or the Pacer is closed first, Wait
// gives the slot back and returns the context's error or [ErrClosed]. If a pause is reported meanwhile that ends
// after the slot, the reservation moves behind it; and if the process was suspended and wakes long after the slot
// (see Config.MaxLate), it moves to the next slot that there is. If that is further away than the deadline or MaxWait
// allow, Wait returns a [*LimitError]. For a reservation that was used or cancelled before it returns [ErrSpent].
func (r *Reservation) Wait(ctx context.Context) error {
	p := r.pacer
	p.waiters.mu.Lock()
	if p.isClosed() {
		p.waiters.mu.Unlock()
		_ = r.Cancel(ctx)
		return ErrClosed
	}
	now := time.Now()
	if _, asks := r.asksAgain(); !asks && r.state == reserved && r.moving == nil && ctx.Err() == nil && !now.Before(r.due) && !r.overdue(now) && !p.waiters.paused(r) {
		r.use() // the common case: nothing to wait for
		p.waiters.mu.Unlock()
		r.waitDone(ctx, nil)
		return nil
	}
	p.waiting.Add(1)
	defer p.waiting.Done()
	p.waiters.mu.Unlock()

	p.waiters.enter(ctx, r)
	defer p.waiters.leave(r)
	p.listen() // earlier changes concern only calls that waited then
	var timer *time.Timer
	for {
		delay, err := r.next(ctx)
		if err != nil || delay <= 0 {
			r.waitDone(ctx, err)
			return err
		}
		if timer == nil {
			timer = time.NewTimer(delay)
			defer timer.Stop()
		} else {
			timer.Reset(delay)
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-p.closed:
		case <-r.wake:
		}
	}
}

// next decides what a waiting reservation does now: sleep for a positive delay, go (0, nil), or give up with an
// error.
func (r *Reservation) next(ctx context.Context) (time.Duration, error) {
	p := r.pacer
	p.waiters.mu.Lock()
	r.settle()
	if r.state != reserved {
		err := r.err
		p.waiters.mu.Unlock()
		return 0, cmp.Or(err, ErrSpent)
	}
	cause := ctx.Err()
	if cause == nil && p.isClosed() {
		cause = ErrClosed
	}
	if cause != nil {
		if r.grant[0].Queued && r.byDeadline && errors.Is(cause, context.DeadlineExceeded) {
			cause = p.notYet(r) // this error tells why it had to wait so long
		}
		p.waiters.mu.Unlock()
		_ = r.Cancel(ctx)
		return 0, cause
	}
	now := time.Now()
	if err := r.waitedTooLong(now); err != nil {
		p.waiters.mu.Unlock()
		_ = r.Cancel(ctx)
		return 0, err
	}
	if at, asks := r.asksAgain(); asks {
		if delay := at.Sub(now); delay > 0 {
			if !r.latest.IsZero() && r.grant[0].Queued {
				delay = min(delay, max(1, r.latest.Sub(now)))
			}
			r.waiting(ctx, now, r.due.Sub(now))
			p.waiters.mu.Unlock()
			return delay, nil
		}
		r.catch()
		p.waiters.mu.Unlock()
		p.askAgain(ctx, r)
		return r.next(ctx)
	}
	if delay := r.due.Sub(now); delay > 0 {
		r.waiting(ctx, now, delay)
		p.waiters.mu.Unlock()
		return delay, nil
	}
	if r.overdue(now) {
		r.catch()
		p.waiters.mu.Unlock()
		p.move(ctx, []*Reservation{r})
		return r.next(ctx)
	}
	r.use()
	p.waiters.mu.Unlock()
	return 0, nil
}

// overdue reports whether the slot passed so long ago that other calls may have counted on it. The caller holds
// pacer.waiters.mu.
func (r *Reservation) overdue(now time.Time) bool {
	return now.Sub(r.requested) > r.grant[0].Wait()+r.grant[0].Slack+r.pacer.maxLate
}

// Release records that the call is over, so that other calls may have its permits. It does nothing if the reservation
// has none, or if it was released before: call it on every path. It does not block on a shared store. Without
// Release, permits are renewed until the Pacer is closed: see [Reservation.WhileAlive].
func (r *Reservation) Release() { r.pacer.leases.Release(r.leased()) }

// leased returns the lease of the permits that the reservation has; nil if it has none.
func (r *Reservation) leased() *leases.Lease {
	s := &r.pacer.waiters
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.lease
}

// WhileAlive sets a function that reports whether the call is still alive while [Reservation.Release] has not been
// called. A permit whose call is not alive when its lease is to be renewed is not renewed, and comes back when the
// lease runs out. The function is called from another goroutine and must not block. Defaults to one that always
// returns true.
func (r *Reservation) WhileAlive(alive func() bool) {
	r.pacer.leases.WhileAlive(r.leased(), alive)
}

// use marks the slot as used: the call goes. The caller holds pacer.waiters.mu.
func (r *Reservation) use() {
	r.state = used
	r.leaveQueue()
	r.pacer.usage.Admit(&r.tracked, &r.call[0], r.grant[0].Charges)
	r.pacer.count(r)
}

// count counts what the call spends.
func (p *Pacer) count(r *Reservation) {
	if !p.meter.IsOn() {
		return
	}
	waitedFor, waited := store.BindsNothing, time.Duration(0)
	if r.since != 0 {
		waitedFor, waited = r.waitsFor(), r.waited()
	}
	p.meter.Add(r.stack.Limits, &r.call[0], r.grant[0].At, waitedFor, waited)
}

// cost returns what the call costs the limit with this index; its own cost if there is no such limit.
func (r *Reservation) cost(i int) int64 {
	if i < 0 || i >= len(r.call[0].Costs) {
		return r.call[0].Cost
	}
	return r.call[0].Costs[i]
}

// answered counts the call as done at now, and returns what is known of it.
func (r *Reservation) answered(ctx context.Context, now time.Time) feedback.Answer {
	s := &r.pacer.waiters
	s.mu.Lock()
	defer s.mu.Unlock()
	a := feedback.Answer{Limits: r.stack.Limits}
	if r.state == reserved { // its owner slept without calling Wait
		r.use()
		r.admitted(ctx)
	}
	if r.state != used {
		return a
	}
	a.Call, a.Grant, a.Tracked, a.Took = &r.call[0], &r.grant[0], &r.tracked, now.Sub(r.due)
	if !r.closed {
		r.closed = true
		r.pacer.usage.Answered(&r.tracked, &r.call[0], r.grant[0].Charges)
	}
	return a
}

// Settle sets what the call really cost, by [Cost] and [CostOf], when that is known only afterwards: tokens, points.
// If the call was charged too much, Settle gives the difference back. If it was charged too little, Settle charges
// the difference, even beyond the limits, and later calls wait for it. A policy that is not mentioned keeps its
// charge, and so does one that the call did not cost anything at first. Settle a reservation once, after Wait:
// otherwise it returns [ErrSpent]. It returns a [*ConfigError] for a cost that is negative or above policies.MaxLimit
// and for an unknown policy, and a [*StoreError] if the store fails.
func (r *Reservation) Settle(ctx context.Context, costs ...Option) error {
	p := r.pacer
	a := ask{opts: costs}
	all := int64(-1)
	for i := range costs {
		o := &costs[i]
		if o.kind != optCost && o.kind != optCostOf {
			return &ConfigError{Field: "Settle", Value: "an option", Reason: "is neither a Cost nor a CostOf"}
		}
		if o.n < 0 || o.n > policies.MaxLimit {
			return badNumber("Settle", o.n, "must be from 0 to policies.MaxLimit")
		}
		if o.kind == optCost {
			all = o.n
		}
	}
	if err := p.checkCosts(&a); err != nil {
		return err
	}
	p.waiters.mu.Lock()
	if r.state == reserved { // its owner slept without calling Wait
		r.use()
		r.admitted(ctx)
	}
	spent := r.state != used || r.paid
	r.paid = true
	p.waiters.mu.Unlock()
	if spent {
		return ErrSpent
	}
	var notes []store.Note
	for i := range r.stack.Limits {
		cost := r.cost(i)
		actual := a.costOf(r.stack.Limits[i].Policy, all)
		if actual >= 0 && actual != cost {
			notes = append(notes, store.Note{Kind: store.NoteSettle, Limit: i, Charge: r.grant[0].Charges[i], Cost: cost, Actual: actual, Local: r.grant[0].Local})
		}
	}
	if len(notes) == 0 {
		return nil
	}
	if _, _, err := p.store.Report(ctx, r.stack, notes); err != nil {
		return p.storeError("report", err)
	}
	return nil
}
