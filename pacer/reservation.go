package pacer

import (
	"cmp"
	"context"
	"time"
)

// storeTimeout bounds the store's operations that go on when the context of a call ends: giving back, moving
// behind a pause.
const storeTimeout = 5 * time.Second

// A Reservation is a slot that was granted and charged. Use it once: either [Reservation.Wait], or sleep
// [Reservation.Delay] and go, or [Reservation.Cancel]. It is safe for concurrent use.
//
// Only Wait moves behind a pause that is reported while it sleeps.
type Reservation struct {
	pacer      *Pacer
	stack      Stack
	call       Call
	latest     time.Time // no later slot will do; zero for Forever
	byDeadline bool      // latest is the context's

	// Under pacer.sleepers.mu from when the reservation is handed out.
	grant  Grant
	due    time.Time // when to go: the slot and jitter
	state  reservationState
	moving chan struct{} // somebody is moving it behind a pause; closed when that is done. nil otherwise
	err    error         // why it could not be moved
	wake   chan struct{} // tells a sleeper that it was moved; nil before it sleeps

	one struct { // what the store is asked and answers, here to save allocations
		calls   [1]Call
		grants  [1]Grant
		charges [4]Charge
	}
}

type reservationState uint8

const (
	reserved reservationState = iota
	used
	givenBack
)

// Delay returns how long from now until the call may go, at least 0.
func (r *Reservation) Delay() time.Duration {
	r.pacer.sleepers.mu.Lock()
	defer r.pacer.sleepers.mu.Unlock()
	return max(0, time.Until(r.due))
}

// Policy returns the name of the policy that decided the slot; "" if none did.
func (r *Reservation) Policy() string {
	r.pacer.sleepers.mu.Lock()
	defer r.pacer.sleepers.mu.Unlock()
	if i := r.grant.Binds; i >= 0 {
		return r.stack.Limits[i].Policy
	}
	return ""
}

// Cancel gives the slot back, so that another call can have it. It does nothing if the reservation was used
// or cancelled before. The context's values are used, but neither its deadline nor its end: what was charged
// is given back even if the context is done. It returns a [*StoreError] if the store fails, in which case the
// slot is lost.
func (r *Reservation) Cancel(ctx context.Context) error {
	s := &r.pacer.sleepers
	s.mu.Lock()
	r.settle()
	if r.state != reserved {
		s.mu.Unlock()
		return nil
	}
	r.state = givenBack
	grant := r.grant
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := r.pacer.store.Cancel(ctx, r.stack, []Grant{grant}); err != nil {
		return r.pacer.storeError("cancel", err)
	}
	return nil
}

// settle waits while the slot is not known because it is being moved. The caller holds pacer.sleepers.mu, and
// does so again afterwards.
func (r *Reservation) settle() {
	for r.moving != nil {
		moved := r.moving
		r.pacer.sleepers.mu.Unlock()
		<-moved
		r.pacer.sleepers.mu.Lock()
	}
}

// Wait sleeps until the call may go, and returns nil: go now. If the context ends or the Pacer is closed
// first, it gives the slot back and returns the context's error or [ErrClosed]. If a pause is reported
// meanwhile whose end lies behind the slot, the reservation moves behind it; if that is further away than its
// deadline or MaxWait allow, Wait returns a [*LimitError]. A reservation that was used or cancelled before is
// [ErrSpent].
func (r *Reservation) Wait(ctx context.Context) error {
	p := r.pacer
	p.sleepers.mu.Lock()
	if p.isClosed() {
		p.sleepers.mu.Unlock()
		_ = r.Cancel(ctx)
		return ErrClosed
	}
	if r.state == reserved && r.moving == nil && ctx.Err() == nil && time.Until(r.due) <= 0 && !p.sleepers.paused(r) {
		r.state = used // the common case: nothing to wait for
		p.sleepers.mu.Unlock()
		return nil
	}
	p.waiting.Add(1)
	defer p.waiting.Done()
	p.sleepers.mu.Unlock()

	p.sleepers.enter(ctx, r)
	defer p.sleepers.leave(r)
	var timer *time.Timer
	for {
		delay, err := r.next(ctx)
		if err != nil || delay <= 0 {
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

// next decides what a waiting reservation does now: sleep for a positive delay, go (0, nil), or give up with
// an error.
func (r *Reservation) next(ctx context.Context) (time.Duration, error) {
	p := r.pacer
	p.sleepers.mu.Lock()
	r.settle()
	if r.state != reserved {
		err := r.err
		p.sleepers.mu.Unlock()
		return 0, cmp.Or(err, ErrSpent)
	}
	cause := ctx.Err()
	if cause == nil && p.isClosed() {
		cause = ErrClosed
	}
	if cause != nil {
		p.sleepers.mu.Unlock()
		_ = r.Cancel(ctx)
		return 0, cause
	}
	delay := time.Until(r.due)
	if delay <= 0 {
		r.state = used
	}
	p.sleepers.mu.Unlock()
	return delay, nil
}
