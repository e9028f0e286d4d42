package bookings

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Records of bookings, in the store. Any other record is a token: that of the booking's present slot. No token begins with the mark, which
// is not base64url.
const (
	spentMark = "."  // and then who has spent it
	noSlot    = ".." // the booking needs another slot
)

// keepLonger is how much longer than a token its record is kept, because clocks may step.
const keepLonger = time.Minute

// change replaces the record, or learns the present one.
func (x *Redemption) change(ctx context.Context, next string, refund bool) (store.BookingResult, error) {
	reply, err := x.ask(ctx, next, nil, refund)
	if err != nil {
		return 0, err
	}
	return reply.Result, x.settle(&reply)
}

// ask requests the replacement of the record.
func (x *Redemption) ask(ctx context.Context, next string, w *store.Window, refund bool) (store.Redemption, error) {
	t := x.first
	if x.now != nil {
		t = x.now
	}
	b := store.Booking{ID: x.key, Limits: x.bound.limits, Known: x.known, Window: w, Next: next}
	b.Keep = max(0, t.slot.Sub(store.NowOf(x.Store))) + t.keep + keepLonger
	if !x.later {
		b.Epoch.Began, b.Expires = x.first.epoch, x.first.expires()
	}
	if refund && x.now != nil {
		b.Limits, b.Refund = x.refund()
	}
	ctx = context.WithoutCancel(ctx) // it is not cut short: it may have been done
	began := time.Now()
	answers, err := x.booker.Redeem(ctx, x.Upstream, []store.Booking{b})
	x.way.Took(time.Since(began))
	if err != nil {
		return store.Redemption{}, &dispatch.StoreError{Op: OpRedeem, Err: err}
	}
	return answers[0], nil
}

// settle applies the store's answer.
func (x *Redemption) settle(reply *store.Redemption) error {
	switch reply.Result {
	case store.BookingLost:
		return &TokenError{ErrLost}
	case store.BookingExpired:
		return &TokenError{ErrExpired}
	case store.BookingChanged:
	case store.BookingDone, store.BookingPaused, store.BookingEarly, store.BookingLate:
		return nil
	}
	x.known, x.now = reply.Record, nil
	switch {
	case reply.Record == noSlot:
		return nil
	case reply.Record == "": // it was forgotten just now
		return &TokenError{ErrExpired}
	case reply.Record[:1] == spentMark:
		return &TokenError{dispatch.ErrSpent}
	}
	t, err := parse(reply.Record, x.MaxToken)
	if err != nil {
		return &dispatch.StoreError{Op: OpRedeem, Err: fmt.Errorf("the record of a booking %w", err)}
	}
	x.now = t
	return nil
}

// isBound reports whether the charged limits are those that bind the call now.
func (x *Redemption) isBound() bool {
	_, _, ok := x.charged()
	return ok
}

// charged returns the slot's charge of each limit that binds the call now, and the call's cost: nothing for an allowance that was stated
// since.
func (x *Redemption) charged() (charges []store.Charge, costs []int64, ok bool) {
	known := 0
	for i := range x.bound.limits {
		l, charge, cost := &x.bound.limits[i], store.Charge{}, int64(0)
		switch j := slices.IndexFunc(x.now.limits, func(of tokenLimit) bool { return of.is(l) }); {
		case j >= 0:
			charge, cost = x.now.charge(j), x.now.limits[j].cost
			known++
		case l.Spec.Algorithm != specs.Allowance:
			return nil, nil, false
		}
		charges, costs = append(charges, charge), append(costs, cost)
	}
	return charges, costs, known == len(x.now.limits)
}

// is reports whether the charge of a token's limit has a meaning for another limit.
func (l *tokenLimit) is(other *store.Limit) bool {
	return l.policy == other.Policy && l.scope == other.Scope && l.shape == shapeOf(&other.Spec)
}

// refund returns the charges of the slot to give back: those of limits that still hold.
func (x *Redemption) refund() (limits []store.Limit, charges []store.Charge) {
	for i := range x.now.limits {
		for j := range x.bound.limits {
			if x.now.limits[i].is(&x.bound.limits[j]) {
				limits, charges = append(limits, x.bound.limits[j]), append(charges, x.now.charge(i))
			}
		}
	}
	return limits, charges
}

// charge returns the charge of the limit at i.
func (t *token) charge(i int) store.Charge {
	c := t.limits[i].charge
	if c.To != 0 {
		c.Made = int64(t.made)
	}
	return c
}
