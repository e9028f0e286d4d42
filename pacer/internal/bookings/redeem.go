package bookings

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
)

// maxTurns bounds how often one Redeem reads a record that others change meanwhile.
const maxTurns = 16

// soonEnough is how long before its slot a booking is spent if Redeem may wait that long: a busy machine wakes late, and without a slack
// the request must start before the slot.
const soonEnough = 200 * time.Millisecond

var errRestless = errors.New("others change the booking all the time")

// A Redemption is a token that is being used. Make one with [Bookings.Open], and use it once.
type Redemption struct {
	*Bookings

	booker  store.Booker
	reserve func() *binding.Reservation
	first   *token // as it was given
	key     string // of its record
	later   bool   // an attempt after the first

	known string // the record, as far as it is known
	now   *token // the slot that the booking has; nil if it has none
	moved bool

	latest store.Instant // no later slot is waited for
	early  time.Duration // how long before its slot the booking is spent

	spent string // the record by which this redemption has spent it

	r     *binding.Reservation
	a     binding.Ask
	bound bookable
}

// Open reads a token, for an attempt from 1. Redeem may wait for a slot until patience is over. reserve returns the call; if the policies
// or the slot change, it is called again, and its earlier result is dropped.
func (s *Bookings) Open(ctx context.Context, tok string, attempt int64, patience time.Duration, reserve func() *binding.Reservation) (*Redemption, error) {
	if attempt < 1 {
		return nil, binding.Invalid("Attempt", strconv.FormatInt(attempt, 10), "must be at least 1")
	}
	t, err := parse(tok, s.MaxToken)
	if err == nil && t.upstream != s.Upstream {
		err = errTokenUpstream
	}
	if err != nil {
		return nil, &TokenError{err}
	}
	x := &Redemption{Bookings: s, reserve: reserve, first: t, now: t, key: t.key(attempt), later: attempt > 1}
	if x.later {
		x.now = nil
	}
	var nonce [9]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	x.spent = spentMark + base64.RawURLEncoding.EncodeToString(nonce[:])
	if err := x.bindAnew(ctx); err != nil {
		return nil, err
	}
	soon := x.a
	soon.MaxWait = s.Early
	if _, err := s.Calls.Await(ctx, &soon); err != nil {
		return nil, err
	}
	lead := s.lead()
	x.latest = store.NowOf(s.Store).Add(patience + lead)
	if len(x.bound.permits) == 0 {
		x.early = max(s.Early, min(patience, soonEnough)) + lead
	} else { // it is requested first, and others may need it until then
		x.early = s.Early + lead + s.way.Longest()
	}
	x.booker, err = s.booker(OpRedeem)
	return x, err
}

// bindAnew binds the call by the present policies.
func (x *Redemption) bindAnew(ctx context.Context) (err error) {
	x.r = x.reserve()
	x.r.Options = x.first.options()
	if x.a, err = x.r.Read(binding.WithoutScopes(ctx), x.Calls); err != nil { // what the call carries is in the token
		return err
	}
	x.a.Permits = true
	x.r.Keep(&x.a, &x.r.First)
	x.bound, err = x.bind(&x.a, &x.r.First)
	return err
}

// Redeem takes turns until the call may go, and returns nil, or until it may not.
func (x *Redemption) Redeem(ctx context.Context) error {
	for range maxTurns {
		went, err := x.turn(ctx)
		if err != nil || went {
			return err
		}
	}
	return &dispatch.StoreError{Op: OpRedeem, Err: errRestless}
}

// Cancel gives the slot of the booking back, and spends the token.
func (x *Redemption) Cancel(ctx context.Context) error {
	for range maxTurns {
		result, err := x.change(ctx, x.spent, true)
		if err != nil || result == store.BookingDone {
			return err
		}
	}
	return &dispatch.StoreError{Op: OpRedeem, Err: errRestless}
}

// turn takes the next step, and reports whether the call may go.
func (x *Redemption) turn(ctx context.Context) (went bool, err error) {
	if x.a.Set != x.Calls.Policies.Now() {
		if err = x.bindAnew(ctx); err != nil {
			return false, err
		}
	}
	switch {
	case x.a.Set.Free:
		result, err := x.change(ctx, x.spent, true)
		if err != nil || result != store.BookingDone {
			return false, err
		}
		if err = x.Calls.Dispatcher.Free(ctx, &x.r.Call, &store.Call{Cost: x.a.Cost, MaxWait: store.Forever}); err == nil {
			err = x.r.Wait(ctx)
		}
		return err == nil, err
	case x.known == "" && x.later: // it may have a slot by now
		return false, x.leaveSlot(ctx)
	case x.now == nil:
		return false, x.book(ctx)
	case !x.isBound():
		return false, x.leaveSlot(ctx)
	}
	return x.use(ctx)
}

// use lets the call go if it is time for its slot. If it is too late, or the call may not go, the booking has lost its slot.
func (x *Redemption) use(ctx context.Context) (went bool, err error) {
	if early := x.now.slot.Sub(store.NowOf(x.Store)) - x.early; early > 0 && x.now.slot <= x.latest {
		return false, x.rest(ctx, early) // nothing is spent meanwhile, and no permit taken
	}
	var permits *dispatch.Call
	if len(x.bound.permits) > 0 {
		if permits, err = x.permits(ctx); err != nil {
			return false, err
		}
	}
	t := x.now
	w := &store.Window{From: t.slot.Add(-x.early), At: t.slot, Until: t.slot.Add(t.slack)}
	requested, known := time.Now(), x.Calls.Dispatcher.Changes()
	reply, err := x.ask(ctx, x.spent, w, false)
	if err != nil || reply.Result != store.BookingDone {
		if permits != nil {
			_ = permits.NotUsed(ctx)
		}
	}
	switch {
	case err != nil:
		return false, err
	case reply.Result == store.BookingEarly && t.slot <= x.latest: // its time was an estimate
		return false, x.rest(ctx, t.slot.Sub(reply.Now)-x.early)
	case reply.Result == store.BookingEarly:
		return false, &LaterError{Wait: x.until(t), Slack: t.slack, Moved: x.moved}
	case reply.Result == store.BookingLate, reply.Result == store.BookingPaused:
		return false, x.leaveSlot(ctx)
	case reply.Result != store.BookingDone:
		return false, x.settle(&reply)
	}
	x.known = x.spent
	g := store.Grant{OK: true, Now: reply.Now, At: t.slot, Slack: t.slack, Binds: store.BindsNothing}
	request := dispatch.Request{Limits: x.bound.limits}
	request.Call = store.Call{Cost: x.a.Cost, Kept: x.bound.choices.Kept, Caller: x.a.Caller}
	g.Charges, request.Call.Costs, _ = x.charged()
	x.Calls.Dispatcher.Adopt(ctx, &x.r.Call, &request, &g, requested, known, permits)
	err = x.r.Wait(ctx)
	if err == nil {
		return true, nil
	}
	// The slot was given back. A pause may have come just now, so there is another one.
	x.now = nil
	if cause := x.leaveSlot(context.WithoutCancel(ctx)); cause != nil {
		return false, errors.Join(err, cause)
	}
	if !isRefusal(err) {
		return false, err
	}
	return false, x.bindAnew(ctx)
}

// rest waits until a slot is near.
func (x *Redemption) rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-x.Calls.Dispatcher.Closed():
		return store.ErrClosed
	}
}

// permits takes the call's permits.
func (x *Redemption) permits(ctx context.Context) (*dispatch.Call, error) {
	c := &dispatch.Call{}
	request := dispatch.Request{Limits: x.bound.permits, HasQueue: true, Call: store.Call{Cost: 1, Weight: 1}}
	err := x.Calls.Dispatcher.Reserve(ctx, c, &request)
	if isRefusal(err) {
		return nil, &LaterError{Moved: x.moved, Refused: err}
	}
	if err == nil && c.View().Due.IsZero() { // queued
		_ = c.NotUsed(ctx)
		return nil, &LaterError{Moved: x.moved, InFlight: x.bound.permits[0].Policy}
	}
	return c, err
}

// bookAhead is the least time until another slot of a booking: without a slack, a slot right now is over when it is used. A slow store gets
// more.
const bookAhead = 20 * time.Millisecond

// book gets the booking another slot.
func (x *Redemption) book(ctx context.Context) error {
	t, a := *x.first, x.a
	a.NotBefore = max(bookAhead, x.early/2, 3*x.way.Longest())
	a.MaxWait = max(a.MaxWait, a.NotBefore)
	g, err := x.bookSlot(ctx, &a, &x.bound, &t)
	if err != nil {
		return err
	}
	result, err := x.change(ctx, t.String(), false)
	if err != nil || result != store.BookingDone {
		x.giveBack(ctx, x.bound.limits, &g) // another redemption has got it one
		return err
	}
	x.known, x.now, x.moved = t.String(), &t, x.moved || !x.later
	return nil
}

// leaveSlot gives the booking's slot back, if it has one. Then it needs another one, even if it was spent.
func (x *Redemption) leaveSlot(ctx context.Context) error {
	result, err := x.change(ctx, noSlot, true)
	if err == nil && result == store.BookingDone {
		x.known, x.now, x.moved = noSlot, nil, x.moved || x.now != nil
	}
	return err
}
