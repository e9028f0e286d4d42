package failover

import (
	"context"
	"slices"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/store"
)

var _ store.Booker = (*Store)(nil)

// Only the shared store knows the state of a booking: a process that is without it could redeem what another one has redeemed. So bookings
// are neither made nor redeemed locally, whatever the mode, and an answer that is lost is an error.

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

// Booked implements [store.Booker]. A store that grants the slot again has not forgotten it. The store must only be reminded that it was
// taken.
func (w *Store) Booked(stack store.Stack, g store.Grant) {
	w.ledger.releasedAll(&stack, []store.Grant{g})
}

// Redeem implements [store.Redeemer].
func (w *Store) Redeem(ctx context.Context, _ string, all []store.Booking) ([]store.Redemption, error) {
	if _, ok := w.store.(store.Redeemer); !ok {
		return nil, store.ErrNoBookings
	}
	ask, err := w.ensureJoined(ctx)
	if err != nil {
		return nil, err
	}
	if !ask {
		return nil, w.refused()
	}
	copied := slices.Clone(all) // the request may last longer than this
	for i := range copied {
		b := &copied[i]
		b.Limits, b.Refund = slices.Clone(b.Limits), slices.Clone(b.Refund)
		if b.Refund != nil {
			w.forgets(&store.Stack{Limits: b.Limits}, []store.Grant{{Charges: b.Refund}})
		}
	}
	return w.redemptions.Redeem(ctx, copied)
}

// sendRedemptions changes records in one request. If one of them is at fault, the others do not suffer from it.
func (w *Store) sendRedemptions(all []*batch.Redemption) {
	began, bookings := w.Now(), make([]store.Booking, len(all))
	for i, x := range all {
		bookings[i] = x.Booking
	}
	answer := make(chan []store.Redemption, 1)
	err := w.reach(all[0].Ctx, "redeem", func(ctx context.Context) error {
		answers, err := w.store.(store.Redeemer).Redeem(ctx, w.config.Upstream, bookings) //nolint:forcetypeassert // it is one: see Redeem
		if err == nil {
			answer <- answers[:len(bookings)]
		}
		return err
	})
	if half := len(all) / 2; half > 0 && err != nil && w.unfit(err) {
		w.sendRedemptions(all[:half])
		w.sendRedemptions(all[half:])
		return
	}
	w.fellBack(err, began)
	answers := make([]store.Redemption, len(all))
	if err == nil {
		answers = <-answer
		w.observe(answers[0].Now)
	}
	for i, x := range all {
		x.Answer, x.Err = answers[i], err
	}
}
