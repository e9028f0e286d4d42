package failover

import (
	"cmp"
	"context"
	"slices"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// This process's debts to the store, and how it pays.

// pay reports to the store what was spent locally, and what else it does not know. Paid debts leave the bill. Refunds come first: they may
// be of what was spent.
func (w *Store) pay(ctx context.Context, b *bill) error {
	now := w.Now()
	if err := w.payGrants(ctx, b); err != nil {
		return err
	}
	var due readings.Reports
	for k, t := range b.spent {
		notes := t.due(int64(now))
		if len(notes) == 0 {
			delete(b.spent, k)
		}
		due.Add(&t.limit, notes...)
	}
	_, err := w.sendReports(ctx, due.All, func(m *readings.Report) {
		for i := range m.Notes {
			l := &m.Limits[m.Notes[i].Limit]
			b.spent[l.Key()].paid(&m.Notes[i])
		}
	})
	for k, t := range b.spent {
		if len(t.due(int64(now))) == 0 {
			delete(b.spent, k)
		}
	}
	if err != nil {
		return err
	}
	return w.payNotes(ctx, b)
}

// payGrants gives back what is owed of grants.
func (w *Store) payGrants(ctx context.Context, b *bill) error {
	var all []*batch.Refund
	rest := b.owed[:0:0]
	for i := range b.owed {
		d := &b.owed[i]
		switch {
		case (d.batches != nil || d.grants != nil) && w.lapsed(d):
			w.once.end(d.number) // to give it back twice, or what others have, would be worse than never
		case d.grants != nil:
			all = append(all, batch.Refunds(ctx, &store.Stack{Upstream: w.config.Upstream, Limits: d.limits}, d.grants)...)
		default:
			rest = append(rest, *d)
		}
	}
	err := w.payAgain(ctx, &rest)
	batch.Each(all, func(some []*batch.Refund) {
		var errs []error
		batches, places := w.cancels.Batches(some)
		if err == nil && w.isClosing() {
			err = store.ErrClosed
		}
		if err == nil {
			var owed []debt
			errs, owed = w.giveBack(ctx, batches)
			rest = append(rest, owed...)
		}
		for i, r := range some {
			failed := err
			if errs != nil {
				failed = errs[places[i]]
			}
			if failed == nil || w.unfit(failed) {
				continue
			}
			if err = cmp.Or(err, failed); errs == nil || !unsure(failed) {
				rest = append(rest, debt{limits: r.Stack.Limits, grants: r.Grants})
			}
		}
	})
	b.owed = rest
	return err
}

// payAgain repeats the operations of debts that gave grants back and may have been done, and drops paid ones.
func (w *Store) payAgain(ctx context.Context, debts *[]debt) (err error) {
	*debts = slices.DeleteFunc(*debts, func(d debt) bool {
		if d.batches == nil || err != nil {
			return false
		}
		if w.isClosing() {
			err = store.ErrClosed
			return false
		}
		if failed := w.giveBackOnce(ctx, &d); failed != nil && !w.unfit(failed) {
			err = failed
			return false
		}
		return true
	})
	return err
}

// payNotes reports what is owed of notes, in their order.
func (w *Store) payNotes(ctx context.Context, b *bill) error {
	for len(b.owed) > 0 {
		w.lapse(&b.owed[0])
		if d := &b.owed[0]; d.number > 0 {
			if err := w.payOnce(ctx, d); err != nil {
				return err
			}
			b.owed = b.owed[1:]
			continue
		}
		all, n := w.owedNotes(b)
		if err := w.payReports(ctx, b, all, n); err != nil {
			return err
		}
		b.owed = b.owed[n:]
	}
	return nil
}

// lapsed reports whether the store cannot know any more whether a debt was paid: it has lost its data since, or forgotten the number.
func (w *Store) lapsed(d *debt) bool { return w.forgottenSince(d) || d.number > 0 && stale(d.since) }

// lapse takes a debt of notes that has lapsed for what it charges alone: it has no number any more, and is owed to the store as it is now.
func (w *Store) lapse(d *debt) {
	if w.lapsed(d) {
		d.charging()
		w.once.end(d.number)
		d.number, d.began = 0, w.knownEpoch().Began
	}
}

// owedNotes returns the first notes that are owed as reports, and how many debts they are: those up to one with a number, as long as they
// fit in one request.
func (w *Store) owedNotes(b *bill) (all []readings.Report, n int) {
	var m readings.Reports
	limits, noted := 0, 0
	for ; n < len(b.owed); n++ {
		d := &b.owed[n]
		if w.lapse(d); d.number > 0 {
			break
		}
		if limits, noted = limits+len(d.limits), noted+len(d.notes); n > 0 && (limits > readings.MaxLimits || noted > readings.MaxNotes) {
			break
		}
		for i := range d.notes {
			m.Add(&d.limits[d.notes[i].Limit], d.notes[i])
		}
	}
	return m.All, n
}

// payReports sends reports of the first n debts. There is one, but for a debt that is too large by itself. A debt that fails stays.
func (w *Store) payReports(ctx context.Context, b *bill, all []readings.Report, n int) error {
	for i := range all {
		if w.isClosing() {
			return store.ErrClosed
		}
		_, owed, err := w.sendReport(ctx, &all[i])
		if err == nil {
			continue
		}
		if owed {
			i++
		}
		rest := make([]debt, 0, len(all)-i+len(b.owed)-n)
		for _, left := range all[i:] {
			rest = append(rest, debt{limits: left.Limits, notes: left.Notes})
		}
		b.owed = append(rest, b.owed[n:]...)
		return err
	}
	return nil
}

// forgottenSince reports whether the store has lost its data since something was owed.
func (w *Store) forgottenSince(d *debt) bool { return d.began != 0 && d.began != w.knownEpoch().Began }

// payOnce reports again what may have been reported.
func (w *Store) payOnce(ctx context.Context, d *debt) error {
	if w.isClosing() {
		return store.ErrClosed
	}
	if _, _, err := w.report(ctx, d.limits, d.notes, d.number); err != nil && !w.unfit(err) {
		return err
	}
	return nil
}

// charging keeps the charges of a debt whose payment is unknown. Charging them twice only idles; refunding twice would let others go.
func (d *debt) charging() {
	d.notes = slices.DeleteFunc(d.notes, func(n store.Note) bool { return n.Kind == store.NoteSettle && n.Actual <= n.Cost })
}
