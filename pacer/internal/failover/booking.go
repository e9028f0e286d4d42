package failover

import (
	"context"

	"github.com/headway-go/headway/pacer/store"
)

var _ store.Booker = (*Store)(nil)

// What became of a booking, only the shared store knows: a process that is without it could redeem what another one has redeemed. So
// bookings are neither made nor redeemed locally, whatever the mode, and an answer that is lost is an error.

// Epoch implements [store.Booker].
func (w *Store) Epoch() (store.Epoch, error) {
	if _, ok := w.store.(store.Redeemer); !ok {
		return store.Epoch{}, store.ErrNoBookings
	}
	if w.state.Load() != shared {
		return store.Epoch{}, w.refused()
	}
	return w.knownEpoch(), nil
}

// Booked implements [store.Booker]. A store that grants the slot again has not forgotten it. What is left to remind a store of is that it
// was taken.
func (w *Store) Booked(stack store.Stack, g store.Grant) {
	w.ledger.releasedAll(&store.Batch{Stack: stack, Grants: []store.Grant{g}})
}

// Redeem implements [store.Redeemer].
func (w *Store) Redeem(ctx context.Context, stack store.Stack, b store.Booking) (store.Redemption, error) {
	s, ok := w.store.(store.Redeemer)
	if !ok {
		return store.Redemption{}, store.ErrNoBookings
	}
	ask, err := w.ensureJoined(ctx)
	if err != nil {
		return store.Redemption{}, err
	}
	if !ask {
		return store.Redemption{}, w.refused()
	}
	began, copied := w.Now(), stack.Clone()
	if b.Refund != nil {
		w.forgets([]store.Batch{{Stack: copied, Grants: []store.Grant{{Charges: b.Refund}}}})
	}
	answer := make(chan store.Redemption, 1)
	err = w.reachInTurn(ctx, "redeem", func(ctx context.Context) error {
		r, err := s.Redeem(ctx, copied, b)
		answer <- r
		return err
	})
	if err != nil {
		w.fellBack(err, began)
		return store.Redemption{}, err
	}
	r := <-answer
	w.observe(r.Now)
	return r, nil
}
