package batch

import (
	"context"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Redemptions batches changes of the records of bookings, one request at a time.
type Redemptions struct{ *Requests[*Redemption] }

// A Redemption is a change of one record.
type Redemption struct {
	owned

	Booking store.Booking
	Answer  store.Redemption
}

// NewRedemptions returns Redemptions that send makes. It sets the answer of each, or its error.
func NewRedemptions(send func([]*Redemption)) *Redemptions {
	return &Redemptions{newWaited(1, enoughRedeemed, send)}
}

// Redeem makes changes, and waits for that. It returns the first error.
func (r *Redemptions) Redeem(ctx context.Context, bookings []store.Booking) ([]store.Redemption, error) {
	all, answers := make([]*Redemption, len(bookings)), make([]store.Redemption, len(bookings))
	for i := range bookings {
		all[i] = &Redemption{owned: ownedBy(ctx), Booking: bookings[i]}
	}
	if err := do(r.Requests, all); err != nil {
		return nil, err
	}
	for i, x := range all {
		answers[i] = x.Answer
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
