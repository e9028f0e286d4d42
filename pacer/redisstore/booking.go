package redisstore

import (
	"context"
	"fmt"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/store"
)

var _ store.Redeemer = (*Store)(nil)

// booked is the prelude of redeem.lua: the key of the record, and all that is not about accounts.
type booked struct{ *store.Booking }

func (b booked) add(r *request, upstream string) {
	r.key(upstreamKey(upstream) + bookingMark + b.ID)
	r.numbers(int64(b.Epoch.Began))
	r.args = append(r.args, b.Known, b.Next)
	r.numbers(engine.MicrosUp(b.Keep), int64(b.Expires))
	if w := b.Window; w != nil {
		r.numbers(int64(w.From), int64(w.At), int64(w.Until))
	} else {
		r.numbers(0, 0, 0)
	}
}

// Redeem implements [store.Redeemer]: one script. It may be sent again, because a second run finds what the first has written.
func (s *Store) Redeem(ctx context.Context, stack store.Stack, b store.Booking) (store.Redemption, error) {
	now := s.now()
	for try := 0; ; try++ {
		q := newRequest()
		if err := q.limits(stack.Upstream, stack.Limits, booked{&b}.add, now, now); err != nil {
			return store.Redemption{}, err
		}
		q.numbers(int64(len(b.Refund)))
		for _, c := range b.Refund {
			q.numbers(c.From, c.To, c.Made)
		}
		v, err := s.query(ctx, &s.redeem, q)
		if err != nil {
			return store.Redemption{}, err
		}
		if len(v) == 1 && try == 0 { // a calendar was open at the wrong page
			if server, ok := v[0].(int64); ok {
				s.saw(server)
				now = server
				continue
			}
		}
		return parseRedemption(v)
	}
}

// parseRedemption reads the reply of redeem.lua.
func parseRedemption(v []any) (r store.Redemption, err error) {
	if len(v) == 3 {
		if record, ok := v[2].(string); ok {
			if r.Record = record; len(record) > store.MaxRecord {
				return store.Redemption{}, fmt.Errorf("%w: the record of a booking is %d bytes long", ErrForeign, len(record))
			}
			v = v[:2]
		}
	}
	numbers := reply{}
	for _, one := range v {
		n, ok := one.(int64)
		if !ok {
			return store.Redemption{}, errNoSettings
		}
		numbers.values = append(numbers.values, n)
	}
	r.Now = numbers.instant()
	r.Result = store.BookingResult(numbers.upTo(int64(store.BookingDone), int64(store.BookingLate))) //nolint:gosec // it is from 1 to 7
	if r.Result == store.BookingPaused {
		r.Until = numbers.instant()
	}
	if err := numbers.done(); err != nil {
		return store.Redemption{}, err
	}
	return r, nil
}
