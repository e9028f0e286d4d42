package batch

import (
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Redemptions batches changes of the records of bookings, one request at a time.
type Redemptions = Answered[store.Booking, store.Redemption]

// A Redemption is a change of one record.
type Redemption = Waited[store.Booking, store.Redemption]

// NewRedemptions returns Redemptions that are made by send, which sets the answer of each, or its error.
func NewRedemptions(send func([]*Redemption)) Redemptions {
	return NewAnswered(1, enoughRedeemed, send)
}

// enoughRedeemed returns how many changes fit in a request: a record, a refund to a limit, and reading a limit take the store about as
// long. Limits of the same key are equal, so each charge is given back as it was made.
func enoughRedeemed(all []*Redemption) (n int) {
	specs, work := make(map[store.Key]*specs.Spec), 0
	for ; n < len(all); n++ {
		b := &all[n].Value
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
