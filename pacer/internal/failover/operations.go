package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/charges"
	"github.com/headway-go/headway/pacer/internal/link"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// CancelAll implements [store.Bulk].
func (o *operations) CancelAll(ctx context.Context, batches []store.Batch) error {
	var theirs []store.Batch
	for i := range batches {
		stack := &batches[i].Stack
		rest, known, err := o.accounts.Cancel(ctx, stack.Upstream, batches[i].Grants)
		if err != nil {
			return err
		}
		o.ledger.GivenBack(stack, rest, false)
		theirs = append(theirs, batch.Refunds(stack, rest)...)
		for j := range known {
			theirs = append(theirs, batch.Refunds(&known[j].Stack, known[j].Grants)...)
		}
	}
	_, err := o.cancels.Do(ctx, theirs...)
	return err
}

// cancelLate gives back what nobody waits for any more. In data that is not that of the grants there is nothing to give back.
func (o *operations) cancelLate(batches []store.Batch) {
	for i := range batches {
		if b := &batches[i]; b.Stack.Epoch.IsZero() || b.Stack.Epoch.Began == o.settings.known().Began {
			o.cancels.Send(context.Background(), batch.Refunds(&b.Stack, store.Granted(b.Grants))...)
		}
	}
}

// sendCancels gives refunds back in one request. Grants that may not have been given back stay charged until they are past. The batches must
// stay as they are: the operation may last longer than this.
func (o *operations) sendCancels(all []*batch.Refund) {
	batches, failed, began := make([]store.Batch, len(all)), make([]error, len(all)), o.contact.Now()
	for i, r := range all {
		batches[i] = r.Value
	}
	o.contact.link.Each(batches, failed, func(some []store.Batch) error {
		if !o.contact.is(shared) {
			return link.ErrResting
		}
		err := o.contact.link.CancelAll(all[0].Ctx, some)
		o.contact.fellBack(err, began)
		return err
	})
	for i, r := range all {
		if r.Err = failed[i]; errors.Is(r.Err, store.ErrUnreachable) {
			o.bill.Lost(&r.Value.Stack, r.Value.Grants)
			r.Err = nil
		}
	}
}

// Report implements [store.Store]. A pause or a charge is undone now or not at all: later that could undo a newer one. So while the state
// is local, a resumption and a reset are heeded only by this process, and return an error.
func (o *operations) Report(ctx context.Context, stack store.Stack, notes []store.Note) (now store.Instant, changed int, err error) {
	ask, err := o.member.ensureJoined(ctx)
	if err != nil && !errors.Is(err, store.ErrNoContact) { // what is reported before the first contact is reported with it
		return 0, 0, err
	}
	o.ledger.Settled(&stack, notes)
	sent := &charges.Debt{Report: readings.Report{Limits: stack.Limits}}
	if began := o.contact.Now(); ask {
		if now, changed, err = o.reportShared(ctx, sent, notes); !o.contact.fellBack(err, began) {
			return now, changed, err
		}
	}
	if o.contact.config.Mode == Local {
		now, changed, err = o.accounts.Report(ctx, &stack, notes, o.contact.absence(), sent.Once)
		if err == nil && slices.ContainsFunc(notes, func(n store.Note) bool { return n.Kind == store.NoteResume || n.Kind == store.NoteReset }) {
			err = fmt.Errorf("%w: this process heeds it, but the fleet may not: do it again when the store is back", o.contact.refused())
		}
		return now, changed, err
	}
	if sent.Once != nil {
		o.payer.once.end(sent.Once)
	}
	if o.contact.config.Mode == LetThrough {
		return o.contact.Now(), 0, nil
	}
	return 0, 0, o.contact.refused()
}

// reportShared reports notes to the shared store. sent has its operation afterwards if the store may have applied what it must not apply twice.
func (o *operations) reportShared(ctx context.Context, sent *charges.Debt, notes []store.Note) (now store.Instant, changed int, err error) {
	// A call that was granted locally and is settled with the store: a rate's interval was never the store's.
	kept := slices.DeleteFunc(slices.Clone(notes), func(n store.Note) bool {
		return n.Kind == store.NoteSettle && n.Actual < n.Cost && n.Local && sent.Limits[n.Limit].Spec.Algorithm == specs.GCRA
	})
	for i := range kept {
		if n := &kept[i]; n.Kind == store.NoteAnswer && n.Local {
			n.Cost = 0 // which the store does not know
		}
	}
	if now, changed, err = o.payer.report(ctx, true, sent, kept); err != nil {
		return 0, 0, err
	}
	o.contact.observe(now)
	o.ledger.Answered(sent.Limits, kept, now)
	return now, changed, nil
}

// Status implements [store.Store].
func (o *operations) Status(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	return o.look(ctx, stack, store.Shared.Status)
}

// Pauses implements [store.Bulk].
func (o *operations) Pauses(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	return o.look(ctx, stack, store.Shared.Pauses)
}

func (o *operations) look(
	ctx context.Context, stack store.Stack, read func(store.Shared, context.Context, store.Stack) (store.StackStatus, error),
) (store.StackStatus, error) {
	ask, err := o.member.ensureJoined(ctx)
	if err != nil {
		return store.StackStatus{}, err
	}
	if began, copied := o.contact.Now(), stack.Clone(); ask {
		s, err := link.Ask(ctx, o.contact.link, link.Request{Name: "status", InTurn: true}, func(ctx context.Context, s store.Shared) (store.StackStatus, error) {
			return read(s, ctx, copied)
		})
		if !o.contact.fellBack(err, began) {
			return s, err
		}
	}
	if o.contact.config.Mode != Local {
		return store.StackStatus{}, o.contact.refused()
	}
	return o.accounts.Status(ctx, &stack, o.contact.absence())
}

// Epoch implements [store.Booker].
func (o *operations) Epoch() (store.Epoch, error) {
	if _, is := link.As[store.Redeemer](o.contact.link); !is {
		return store.Epoch{}, store.ErrNoBookings
	}
	if !o.contact.is(shared) {
		return store.Epoch{}, o.contact.refused()
	}
	return o.settings.known(), nil
}

// Booked implements [store.Booker]. Any process may give the slot back: a store that grants it again has not forgotten it.
func (o *operations) Booked(stack store.Stack, g store.Grant) {
	o.ledger.GivenBack(&stack, []store.Grant{g}, true)
}

// Redeem implements [store.Redeemer]. Without the store, a process could redeem a booking that another has redeemed: it never does.
func (o *operations) Redeem(ctx context.Context, _ string, all []store.Booking) ([]store.Redemption, error) {
	if _, is := link.As[store.Redeemer](o.contact.link); !is {
		return nil, store.ErrNoBookings
	}
	if ask, err := o.member.ensureJoined(ctx); err != nil || !ask {
		return nil, cmp.Or(err, o.contact.refused())
	}
	copied := slices.Clone(all) // the request may last longer than this
	for i := range copied {
		one := &copied[i]
		one.Limits, one.Refund = slices.Clone(one.Limits), slices.Clone(one.Refund)
		if one.Refund != nil {
			o.ledger.GivenBack(&store.Stack{Limits: one.Limits}, []store.Grant{{Charges: one.Refund}}, false)
		}
	}
	return o.redemptions.Do(ctx, copied...)
}

// sendRedemptions changes records in one request. If one of them is at fault, the others do not suffer from it.
func (o *operations) sendRedemptions(all []*batch.Redemption) {
	began, some := o.contact.Now(), make([]store.Booking, len(all))
	for i, x := range all {
		some[i] = x.Value
	}
	var answers []store.Redemption
	err := o.contact.refused()
	if o.contact.is(shared) {
		answers, err = link.Ask(all[0].Ctx, o.contact.link, link.Request{Name: "redeem"}, func(ctx context.Context, s store.Shared) ([]store.Redemption, error) {
			return s.(store.Redeemer).Redeem(ctx, o.contact.config.Upstream, some) //nolint:forcetypeassert // see Redeem
		})
		o.contact.fellBack(err, began)
	}
	if half := len(all) / 2; half > 0 && o.contact.link.IsUnfit(err) {
		o.sendRedemptions(all[:half])
		o.sendRedemptions(all[half:])
		return
	}
	if err == nil {
		o.contact.observe(answers[0].Now)
	}
	for i, x := range all {
		if x.Err = err; err == nil {
			x.Answer = answers[i]
		}
	}
}
