package batch

import (
	"context"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Redemptions batches changes of the records of bookings, one request at a time.
type Redemptions struct{ requests[*Redemption] }

// A Redemption is a change of one record.
type Redemption struct {
	Ctx     context.Context //nolint:containedctx // for its values
	Booking store.Booking
	Answer  store.Redemption
	Err     error

	done chan struct{}
}

// NewRedemptions returns Redemptions that send makes. It sets the answer of each, or its error.
func NewRedemptions(send func([]*Redemption)) *Redemptions {
	r := &Redemptions{}
	r.init(1, enoughRedeemed, func(all []*Redemption) {
		send(all)
		for _, x := range all {
			close(x.done)
		}
	})
	return r
}

// Redeem makes changes, and waits for that. It returns the first error.
func (r *Redemptions) Redeem(ctx context.Context, bookings []store.Booking) ([]store.Redemption, error) {
	all, answers := make([]*Redemption, len(bookings)), make([]store.Redemption, len(bookings))
	for i := range bookings {
		all[i] = &Redemption{Ctx: ctx, Booking: bookings[i], done: make(chan struct{})}
	}
	r.add(all)
	var err error
	for i, x := range all {
		<-x.done
		if answers[i] = x.Answer; err == nil {
			err = x.Err
		}
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// enoughRedeemed returns how many changes fit in a request: a record, a refund to a limit, and reading a limit take the store about as
// long. Limits of the same key are equal, so each charge is given back as it was made.
func enoughRedeemed(all []*Redemption) (n int) {
	specs, work := make(map[store.Key]*specs.Spec), 0
	for ; n < len(all); n++ {
		b := &all[n].Booking
		work += 1 + len(b.Refund)
		for i := range b.Limits {
			l := &b.Limits[i]
			switch spec := specs[l.Key()]; {
			case spec == nil:
				work++
			case !spec.Equal(l.Spec):
				return n
			}
			specs[l.Key()] = &l.Spec
		}
		if n > 0 && work > store.MaxBookings {
			break
		}
	}
	return n
}
