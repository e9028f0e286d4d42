package redisstore

import (
	"context"
	"fmt"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/store"
)

var _ store.Redeemer = (*Store)(nil)

// Redeem implements [store.Redeemer]: one script. It may be sent again, because a second run finds what the first has written.
func (s *Store) Redeem(ctx context.Context, upstream string, all []store.Booking) ([]store.Redemption, error) {
	if len(all) == 0 {
		return nil, nil
	}
	batches := make([]store.Batch, len(all))
	for i := range all {
		batches[i].Stack.Limits = all[i].Limits
	}
	limits, refs := union(batches)
	now := s.now()
	for try := 0; ; try++ {
		q := newRequest()
		base := q.addKeys(upstream, limits)
		for i := range all {
			q.key(base + bookingMark + all[i].ID)
		}
		if err := q.addAccounts(limits, now, now); err != nil {
			return nil, err
		}
		for i := range all {
			q.booking(refs.of(i), &all[i])
		}
		v, err := s.query(ctx, scripts.Redeem, q)
		if err != nil {
			return nil, err
		}
		if len(v) == 1 && try == 0 { // a calendar was open at the wrong page
			if server, ok := v[0].(int64); ok {
				s.saw(server)
				now = server
				continue
			}
		}
		return parseRedemptions(v, len(all))
	}
}

// booking adds a change of a record. Its limits are refs: see binding.
func (r *request) booking(refs []int64, b *store.Booking) {
	r.binding(refs)
	r.numbers(int64(b.Epoch.Began))
	r.args = append(r.args, b.Known, b.Next)
	r.numbers(engine.MicrosUp(b.Keep), int64(b.Expires))
	if w := b.Window; w != nil {
		r.numbers(int64(w.From), int64(w.At), int64(w.Until))
	} else {
		r.numbers(0, 0, 0)
	}
	r.numbers(int64(len(b.Refund)))
	for _, c := range b.Refund {
		r.numbers(c.From, c.To, c.Made)
	}
}

// parseRedemptions reads the reply of redeem.lua about n bookings: now, and for each a result and its data.
func parseRedemptions(v []any, n int) (all []store.Redemption, err error) {
	if len(v) != 1+2*n {
		return nil, errNonsense
	}
	number := func(one any, least, most int64) int64 {
		n, ok := one.(int64)
		if !ok || n < least || n > most {
			err = errNonsense
		}
		return n
	}
	all = make([]store.Redemption, n)
	for i := range all {
		r, more := &all[i], v[2+2*i]
		r.Now = store.Instant(number(v[0], 0, maxInstant))
		r.Result = store.BookingResult(number(v[1+2*i], int64(store.BookingDone), int64(store.BookingLate))) //nolint:gosec // it is from 1 to 7
		switch record, ok := more.(string); {
		case r.Result == store.BookingPaused:
			r.Until = store.Instant(number(more, 0, maxInstant))
		case r.Result != store.BookingChanged:
			number(more, 0, 0)
		case !ok:
			err = errNonsense
		case len(record) > store.MaxRecord:
			err = fmt.Errorf("%w: the record of a booking is %d bytes long", ErrForeign, len(record))
		default:
			r.Record = record
		}
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}
