package pacer

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer/internal/calls"
	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
)

// Redeem uses a booking, in whichever process has its token. If it is time for its slot, Redeem returns its reservation, as [Pacer.Acquire]
// does: go now, and call [Reservation.Release] when the call is over. It waits for [RedeemEarly] at most, and never for a slot that is
// further away. Otherwise it returns
//
//   - a [*LaterError]: redeem the same token later. If the slot is past, if a pause covers it, or if the policies have changed since, the
//     booking has got another slot, which the store knows: the token stays the same;
//   - a [*LimitError] if the booking needs another slot, and it is further away than its MaxWait allows. It has none then, and you may
//     redeem the token later;
//   - a [*TokenError] if the token was redeemed or cancelled before, has expired, is of data that the store has lost, or is no token;
//   - a [*StoreError] if the store does not answer, whatever Config.Outage is: only the store knows whether the token was redeemed. It may
//     have been by this call, if its answer was lost. Then a later attempt of the job needs [Attempt];
//   - a [*ConfigError] or a [*ScopeError] if the call cannot be bound by the policies of this process, ErrClosed, or the context's error.
//
// A token is redeemed once, by whichever process is first: the store sees to that. A call may go from its slot on until the slack is
// over, both by the store's clock, so that no policy is exceeded, however late a queue wakes its jobs.
//
// Redeem heeds one option, [Attempt]. Anything else the token says: options and context give a *ConfigError, and nothing.
func (p *Pacer) Redeem(ctx context.Context, tok string, opts ...Option) (*Reservation, error) {
	x, err := p.newRedemption(ctx, tok, opts)
	if err != nil {
		return nil, err
	}
	r, err := x.redeem(ctx)
	if err != nil {
		p.refused(ctx, err)
	}
	return r, err
}

// CancelBooking gives the slot of a booking back, so that another call can have it, and spends the token. What is past of the slot stays
// charged. It returns a [*TokenError] that matches [ErrSpent] if the booking was redeemed or cancelled before, and otherwise the errors
// of [Pacer.Redeem] about the token and the store.
func (p *Pacer) CancelBooking(ctx context.Context, tok string, opts ...Option) error {
	x, err := p.newRedemption(ctx, tok, opts)
	if err != nil {
		return err
	}
	for range maxTurns {
		result, err := x.change(ctx, x.spent, true)
		if err != nil || result == store.BookingDone {
			return err
		}
	}
	return x.p.storeError(opRedeem, errRestless)
}

// maxTurns bounds how often one Redeem looks at a booking whose record others change meanwhile.
const maxTurns = 16

var errRestless = errors.New("others change the booking all the time")

// Records of bookings, in the store. One that is none of these is a token: that of the slot that the booking has now. The mark begins no
// token: it is not of base64url.
const (
	spentMark = "."  // and then who has spent it
	noSlot    = ".." // the booking needs another slot
)

// A redemption is a token that is about to be used.
type redemption struct {
	p      *Pacer
	booker store.Booker
	first  *token // as it was given
	key    string // of its record
	later  bool   // an attempt after the first

	known string // the record, as far as it is known
	now   *token // the slot that the booking has; nil if it has none
	moved bool
	spent string        // the record that says that this redemption has spent it
	took  time.Duration // the longest answer of the store

	r     *Reservation
	a     calls.Ask
	bound bookable
}

func (p *Pacer) newRedemption(ctx context.Context, tok string, opts []Option) (*redemption, error) {
	attempt := int64(1)
	for _, o := range opts {
		if o.is.Kind != calls.Attempt {
			return nil, &ConfigError{Field: "Redeem", Value: "an option", Reason: "is not Attempt: all others are those of Book, and in the token"}
		}
		if attempt = o.is.N; attempt < 1 {
			return nil, badNumber("Attempt", attempt, "must be at least 1")
		}
	}
	t, err := parseToken(tok)
	if err == nil && t.upstream != p.upstream {
		err = errTokenUpstream
	}
	if err != nil {
		return nil, &TokenError{Upstream: p.upstream, Err: err}
	}
	x := &redemption{p: p, first: t, now: t, key: t.key(attempt), later: attempt > 1}
	if x.later {
		x.now = nil
	}
	var nonce [9]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	x.spent = spentMark + base64.RawURLEncoding.EncodeToString(nonce[:])
	if err := x.bind(ctx); err != nil {
		return nil, err
	}
	soon := x.a
	soon.MaxWait = RedeemEarly
	if _, err := p.awaitStore(ctx, &soon); err != nil {
		return nil, err
	}
	x.booker, err = p.booker(opRedeem)
	return x, err
}

// bind finds out what binds the call by the policies that hold now.
func (x *redemption) bind(ctx context.Context) (err error) {
	x.r = x.p.newReservation()
	ctx = calls.WithoutScopes(ctx) // what the call carries is in the token
	if err = x.p.mayCall(ctx); err != nil {
		return err
	}
	x.r.call.Options = x.first.options()
	if x.a, err = x.r.call.Read(ctx, x.p.calls); err != nil {
		return err
	}
	x.a.Permits = true
	x.bound, err = x.p.bindBooking(x.r, &x.a)
	return err
}

// redeem takes turns until the call may go, or may not.
func (x *redemption) redeem(ctx context.Context) (*Reservation, error) {
	for range maxTurns {
		var err error
		switch {
		case x.a.Set.Free:
			var result store.BookingResult
			if result, err = x.change(ctx, x.spent, true); result == store.BookingDone {
				return x.goFreely(ctx)
			}
		case x.now == nil:
			err = x.book(ctx)
		case !x.isBound():
			err = x.leaveSlot(ctx)
		default:
			var went bool
			if went, err = x.use(ctx); went {
				return x.r, nil
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, x.p.storeError(opRedeem, errRestless)
}

// goFreely has a call go that no policy binds.
func (x *redemption) goFreely(ctx context.Context) (*Reservation, error) {
	if err := x.p.waiters.Free(ctx, &x.r.call.Call, &store.Call{Cost: x.a.Cost, MaxWait: Forever}); err != nil {
		return nil, err
	}
	return x.r, x.r.Wait(ctx)
}

// use has the call go if it is time for its slot. If it is too late, or may not, the booking has no slot any more.
func (x *redemption) use(ctx context.Context) (went bool, err error) {
	var permits *waiters.Call
	if len(x.bound.permits) > 0 {
		if permits, err = x.permits(ctx); err != nil {
			return false, err
		}
	}
	t := x.now
	w := &store.Window{From: t.slot.Add(-RedeemEarly), At: t.slot, Until: t.slot.Add(t.slack)}
	requested := time.Now()
	reply, err := x.ask(ctx, x.spent, w, false)
	if err != nil || reply.Result != store.BookingDone {
		if permits != nil {
			_ = permits.NotUsed(ctx)
		}
	}
	switch {
	case err != nil:
		return false, err
	case reply.Result == store.BookingEarly:
		return false, x.laterError(t.slot.Sub(reply.Now))
	case reply.Result == store.BookingLate, reply.Result == store.BookingPaused:
		return false, x.leaveSlot(ctx)
	case reply.Result != store.BookingDone:
		return false, x.settle(&reply)
	}
	x.known = x.spent
	g := store.Grant{OK: true, Now: reply.Now, At: t.slot, Slack: t.slack, Binds: store.BindsNothing}
	request := waiters.Request{Limits: x.bound.limits}
	request.Call = store.Call{Cost: x.a.Cost, Tracked: t.tracked && x.p.calls.Counts}
	for i := range t.limits {
		request.Call.Costs = append(request.Call.Costs, t.limits[i].cost)
		g.Charges = append(g.Charges, t.charge(i))
	}
	x.p.waiters.Adopt(ctx, &x.r.call.Call, &request, &g, requested, permits)
	err = x.r.Wait(ctx)
	if err == nil {
		return true, nil
	}
	// The slot was given back. A pause may have come just now: then there is another one.
	x.now = nil
	if cause := x.unspend(context.WithoutCancel(ctx)); cause != nil {
		return false, errors.Join(err, cause)
	}
	if _, refused := errors.AsType[*LimitError](err); !refused {
		return false, err
	}
	return false, x.bind(ctx)
}

// permits takes the permits that the call needs.
func (x *redemption) permits(ctx context.Context) (*waiters.Call, error) {
	c := &waiters.Call{}
	request := waiters.Request{Limits: x.bound.permits, HasQueue: true, Call: store.Call{Cost: 1, Weight: 1}}
	err := x.p.waiters.Reserve(ctx, c, &request)
	if refused, ok := errors.AsType[*LimitError](err); ok {
		return nil, &LaterError{Upstream: x.p.upstream, Wait: refused.RetryAfter(), Moved: x.moved, InFlight: refused.Policy}
	}
	if err == nil && c.Due().IsZero() { // queued
		_ = c.NotUsed(ctx)
		return nil, &LaterError{Upstream: x.p.upstream, Wait: unknownRetry, Moved: x.moved, InFlight: x.bound.permits[0].Policy}
	}
	return c, err
}

// bookAhead is how far ahead a booking gets another slot, at least: without a slack, one that is now is over when it is used. A store whose
// answers take long gets more.
const bookAhead = 20 * time.Millisecond

// book gets the booking another slot.
func (x *redemption) book(ctx context.Context) error {
	t, a := *x.first, x.a
	a.NotBefore = max(bookAhead, 3*x.took)
	a.MaxWait = max(a.MaxWait, a.NotBefore)
	g, err := x.p.bookSlot(ctx, &a, &x.bound, &t)
	if err != nil {
		return err
	}
	before := x.known
	result, err := x.change(ctx, t.String(), false)
	if err != nil || result != store.BookingDone {
		x.p.giveBack(ctx, x.bound.limits, &g) // somebody else has got it one
		return err
	}
	x.known, x.now, x.moved = t.String(), &t, !x.later || before != ""
	return nil
}

// leaveSlot gives the slot of the booking back.
func (x *redemption) leaveSlot(ctx context.Context) error {
	result, err := x.change(ctx, noSlot, true)
	if err == nil && result == store.BookingDone {
		x.known, x.now = noSlot, nil
	}
	return err
}

// unspend undoes that the booking was spent: its call did not go, and its slot was given back.
func (x *redemption) unspend(ctx context.Context) error {
	result, err := x.change(ctx, noSlot, false)
	if err == nil && result == store.BookingDone {
		x.known = noSlot
	}
	return err
}

// laterError makes the error of a booking whose slot is so far away.
func (x *redemption) laterError(wait time.Duration) error {
	return &LaterError{Upstream: x.p.upstream, Wait: max(wait, leastRetry), Moved: x.moved}
}

// change replaces the record. If it was another one, it is known afterwards.
func (x *redemption) change(ctx context.Context, next string, refund bool) (store.BookingResult, error) {
	reply, err := x.ask(ctx, next, nil, refund)
	if err != nil {
		return 0, err
	}
	return reply.Result, x.settle(&reply)
}

// ask asks the store to replace the record.
func (x *redemption) ask(ctx context.Context, next string, w *store.Window, refund bool) (store.Redemption, error) {
	t := x.first
	if x.now != nil {
		t = x.now
	}
	b := store.Booking{ID: x.key, Known: x.known, Window: w, Next: next}
	b.Keep = max(0, t.slot.Sub(x.p.storeNow())) + t.keep + keepLonger
	if !x.later {
		b.Epoch.Began, b.Expires = x.first.epoch, x.first.expires()
	}
	stack := store.Stack{Upstream: x.p.upstream, Limits: x.bound.limits}
	if refund && x.now != nil {
		stack.Limits, b.Refund = x.refund()
	}
	ctx = context.WithoutCancel(ctx) // it is not cut short: it may have been done
	began := time.Now()
	reply, err := x.booker.Redeem(ctx, stack, b)
	x.took = max(x.took, time.Since(began))
	if err != nil {
		return reply, x.p.storeError(opRedeem, err)
	}
	return reply, nil
}

// keepLonger is for how much longer a record is kept than a token is good, because clocks may step.
const keepLonger = time.Minute

// settle takes notice of the answer of the store.
func (x *redemption) settle(reply *store.Redemption) error {
	switch reply.Result {
	case store.BookingLost:
		return &TokenError{Upstream: x.p.upstream, Err: ErrTokenLost}
	case store.BookingExpired:
		return &TokenError{Upstream: x.p.upstream, Err: ErrTokenExpired}
	case store.BookingChanged:
	case store.BookingDone, store.BookingPaused, store.BookingEarly, store.BookingLate:
		return nil
	}
	x.known, x.now = reply.Record, nil
	switch {
	case reply.Record == noSlot:
		return nil
	case reply.Record == "": // it was forgotten just now
		return &TokenError{Upstream: x.p.upstream, Err: ErrTokenExpired}
	case reply.Record[:1] == spentMark:
		return &TokenError{Upstream: x.p.upstream, Err: ErrSpent}
	}
	t, err := parseToken(reply.Record)
	if err != nil {
		return x.p.storeError(opRedeem, fmt.Errorf("the record of a booking %w", err))
	}
	x.now = t
	return nil
}

// isBound reports whether the limits that were charged are those that bind the call now.
func (x *redemption) isBound() bool {
	if len(x.now.limits) != len(x.bound.limits) {
		return false
	}
	for i := range x.now.limits {
		if !x.now.limits[i].is(&x.bound.limits[i]) {
			return false
		}
	}
	return true
}

// is reports whether what a limit of a token was charged means something to another one.
func (l *tokenLimit) is(other *store.Limit) bool {
	return l.policy == other.Policy && l.scope == other.Scope && l.shape == shapeOf(&other.Spec)
}

// refund returns what is given back of the slot: what limits were charged that still hold.
func (x *redemption) refund() (limits []store.Limit, charges []store.Charge) {
	for i := range x.now.limits {
		for j := range x.bound.limits {
			if x.now.limits[i].is(&x.bound.limits[j]) {
				limits, charges = append(limits, x.bound.limits[j]), append(charges, x.now.charge(i))
			}
		}
	}
	return limits, charges
}

// charge returns what the limit at i was charged.
func (t *token) charge(i int) store.Charge {
	c := t.limits[i].charge
	if c.To != 0 {
		c.Made = int64(t.made)
	}
	return c
}

// storeNow estimates the store's time.
func (p *Pacer) storeNow() store.Instant {
	if p.direct != nil {
		return p.direct.Now()
	}
	if p.member != nil {
		return p.member.Now()
	}
	return store.Instant(time.Now().UnixMicro())
}
