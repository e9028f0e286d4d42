package failover

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/charges"
	"github.com/headway-go/headway/pacer/internal/link"
	"github.com/headway-go/headway/pacer/store"
)

// maxReminders bounds how often one request reminds a store that forgets again and again.
const maxReminders = 4

// operations are those of a store, each by the shared store or locally.
type operations struct {
	contact     *contact
	member      *member
	settings    *settings
	ledger      *charges.Ledger
	accounts    *charges.Accounts
	bill        *charges.Bill
	payer       *payer
	cancels     batch.Answered[store.Batch, struct{}]
	redemptions batch.Answered[store.Booking, store.Redemption]
}

// ReserveEach implements [store.Member].
func (o *operations) ReserveEach(ctx context.Context, batches []store.Batch, errs []error) {
	ask, err := o.member.ensureJoined(ctx)
	var rest []int
	switch {
	case err != nil:
		for i := range errs {
			errs[i] = err
		}
	case ask:
		rest = o.reserveShared(ctx, batches, errs)
	default:
		rest = where(errs, func(error) bool { return true })
	}
	for _, i := range rest {
		errs[i] = o.reserveLocally(ctx, &batches[i], ask)
	}
}

// reserveShared lets the shared store decide, and returns the batches that it left undecided.
func (o *operations) reserveShared(ctx context.Context, batches []store.Batch, errs []error) (rest []int) {
	began, known, sent := o.contact.Now(), o.settings.known(), time.Now()
	for i := range batches { // the store may grant the same ones again
		o.ledger.GivenBack(&batches[i].Stack, heldBy(batches[i].Calls), false)
	}
	lost := func(err error) bool { return err != nil && o.contact.fellBack(err, began) }
	if o.settings.isChanging() { // the store would refuse, because of the next change
		next := store.Epoch{Began: known.Began, Resets: store.AnyResets}
		o.settings.whileHeeding(ctx, next, func() { o.send(ctx, batches, errs) })
	} else {
		o.send(ctx, batches, errs)
		met := where(errs, func(err error) bool { f := link.Forgot(err); return f != nil && f.Epoch.Began == known.Began })
		if len(met) > 0 {
			epoch := link.Forgot(errs[met[0]]).Epoch
			o.settings.whileHeeding(ctx, epoch, func() { o.sendAgain(ctx, batches, errs, met) })
		}
	}
	rest = where(errs, lost)
	// The process reminds a store at once of what it forgot, unless that takes long, or the process can decide without it meanwhile.
	for n := 0; n < maxReminders && time.Since(sent) < o.contact.config.Timeout && len(rest) > 0 && link.Forgot(errs[rest[0]]) != nil && o.contact.config.Mode != Local; n++ {
		if _, failed := o.member.again(ctx); failed != nil {
			break
		}
		began = o.contact.Now()
		o.sendAgain(ctx, batches, errs, rest)
		rest = where(errs, lost)
	}
	return rest
}

// where returns the indices of the errors that satisfy is.
func where(errs []error, is func(error) bool) (all []int) {
	for i, err := range errs {
		if is(err) {
			all = append(all, i)
		}
	}
	return all
}

// sendAgain sends some batches once more.
func (o *operations) sendAgain(ctx context.Context, batches []store.Batch, errs []error, which []int) {
	some, theirs := make([]store.Batch, len(which)), make([]error, len(which))
	for k, i := range which {
		some[k] = batches[i]
	}
	o.send(ctx, some, theirs)
	for k, i := range which {
		errs[i] = theirs[k]
	}
}

// send sends all batches to the store in one request, fills in their grants, and sets the error of each. A batch with an error is not the
// caller's any more: the operation may last longer than this.
func (o *operations) send(ctx context.Context, batches []store.Batch, errs []error) {
	epoch := o.settings.known()
	reported, _ := o.contact.lastSeen()
	if o.settings.heeded.Load() > 0 {
		epoch.Resets = store.AnyResets
	}
	for i := range batches {
		batches[i].Stack.Epoch, batches[i].Stack.LastSeen = epoch, reported
	}
	o.contact.link.Each(batches, errs, func(some []store.Batch) error { return o.contact.link.ReserveAll(ctx, some, o.cancelLate) })
	if epoch.Resets == store.AnyResets {
		o.settings.await()
	}
	for i := range batches {
		if errs[i] == nil {
			errs[i] = o.received(&batches[i]) //nolint:contextcheck // what is given back must be, whether or not a caller waits
		}
	}
}

// received remembers what a store granted, or returns a ForgotError if that shows that the store has lost something.
func (o *operations) received(b *store.Batch) error {
	if b.Stack.Epoch.Resets != store.AnyResets && o.ledger.Contradicts(&b.Stack, b.Grants) {
		o.contact.link.Undo(b)
		o.member.heartbeats.contradicted.Store(true)
		return &store.ForgotError{}
	}
	o.ledger.Granted(&b.Stack, b.Grants)
	if len(b.Grants) > 0 {
		o.contact.observe(b.Grants[0].Now)
	}
	return nil
}

// reserveLocally decides without the shared store, by the mode. The last argument is whether there was a request before.
func (o *operations) reserveLocally(ctx context.Context, b *store.Batch, asked bool) error {
	switch o.contact.config.Mode {
	case Local:
		if b.Grants = make([]store.Grant, len(b.Calls)); !asked { // a request that nobody waits for may still use those
			o.ledger.GivenBack(&b.Stack, heldBy(b.Calls), false)
		}
		calls, away := slices.Clone(b.Calls), o.contact.absence()
		o.bill.Lost(&b.Stack, heldBy(calls)) // those are the shared store's
		for i := range calls {
			calls[i].Held = nil
		}
		waitsFor := store.BindsStore
		if away.Over == nil {
			var err error
			if waitsFor, err = o.accounts.Reserve(ctx, &b.Stack, calls, b.Grants, away); err != nil || waitsFor == store.BindsNothing {
				return err
			}
		}
		o.postpone(calls, b.Grants, waitsFor)
		return nil
	case LetThrough:
		now := o.contact.Now()
		for i := range b.Grants {
			b.Grants[i] = store.Grant{OK: true, Now: now, At: now, Binds: store.BindsNothing, Charges: make([]store.Charge, len(b.Stack.Limits)), Local: true}
		}
		return nil
	case Refuse:
	}
	return o.contact.refused()
}

// postpone answers calls of a process that may not decide about them yet. Queued calls poll after a while; of the others those of a process
// without a share wait in Await, and the rest is refused.
func (o *operations) postpone(calls []store.Call, grants []store.Grant, waitsFor int) {
	now := o.contact.Now()
	for i := range calls {
		queued := calls[i].ID != 0 && calls[i].MaxWait > 0
		grants[i] = store.Grant{Now: now, At: now.Add(2 * probeEvery), AtLeast: !queued, Binds: waitsFor, Charges: grants[i].Charges[:0], Queued: queued}
	}
}

// heldBy returns the slots that calls give back with their request.
func heldBy(calls []store.Call) (all []store.Grant) {
	for i := range calls {
		if held := calls[i].Held; held != nil {
			all = append(all, store.Grant{Charges: held})
		}
	}
	return all
}
