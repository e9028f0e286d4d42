package failover

import (
	"context"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// pay reports to the store what was spent locally, and what else it does not know. What is paid leaves the bill.
func (w *Store) pay(ctx context.Context, b *bill) error {
	var due readings.Reports
	for i := range b.owed {
		d := &b.owed[i]
		if d.number > 0 {
			if err := w.reportOnce(ctx, d); err != nil {
				return err
			}
			continue
		}
		for _, n := range d.notes {
			due.Add(&d.limits[n.Limit], n)
		}
	}
	now := int64(w.Now())
	for _, t := range b.spent {
		due.Add(&t.limit, t.due(now)...)
	}
	_, err := w.sendReports(ctx, due.All, func(m *readings.Report) {
		for i := range m.Notes {
			if t := b.spent[m.Limits[m.Notes[i].Limit].Key()]; t != nil {
				t.paid(&m.Notes[i])
			}
		}
	})
	for k, t := range b.spent {
		if len(t.due(now)) == 0 {
			delete(b.spent, k)
		}
	}
	if err == nil {
		b.owed = nil
	}
	return err
}

// reportOnce repeats a report that the store may have received.
func (w *Store) reportOnce(ctx context.Context, d *debt) error {
	if len(d.notes) == 0 {
		return nil
	}
	if w.isClosing() {
		return store.ErrClosed
	}
	if _, _, _, err := w.report(ctx, d.limits, d.notes, d.number, w.reach); err != nil && !w.unfit(err) {
		return err
	}
	d.notes = nil
	return nil
}
