package failover

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// pay reports to the store what was spent locally, which calls run, and then everything else that it does not know. Paid debts leave the
// bill.
//
// Charges are in the first requests of all processes: those that return at the same time have calls that need room in the same windows.
// Calls that run must be known before permits of others are given back.
func (w *Store) pay(ctx context.Context, b *bill, running []readings.Report) error {
	var due, returned readings.Reports
	now := int64(w.Now())
	for _, t := range b.spent {
		due.Add(&t.limit, t.due(now)...)
	}
	var again errgroup.Group
	again.Go(func() error {
		for i := range b.owed {
			if d := &b.owed[i]; d.number > 0 {
				if err := w.reportOnce(ctx, d); err != nil {
					return err
				}
			}
		}
		return nil
	})
	_, err := w.sendReports(ctx, append(due.All, running...), func(m *readings.Report) {
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
	if err = cmp.Or(err, again.Wait()); err != nil {
		return err
	}
	for i := range b.owed {
		d := &b.owed[i]
		for _, n := range d.notes {
			returned.Add(&d.limits[n.Limit], n)
		}
	}
	if _, err = w.sendReports(ctx, returned.All, nil); err == nil {
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
	if _, _, _, err := w.report(ctx, w.reach, d.limits, stillDue(w.Now(), d.notes), d.number); err != nil && !w.unfit(err) {
		return err
	}
	d.notes = nil
	return nil
}

// operations number the reports of this process that charge something. One whose answer was lost is repeated with its number, and then a
// store that has heeded it does nothing.
type operations struct {
	mu   sync.Mutex
	by   string
	last int64
	open map[int64]struct{} // those whose outcome is unknown
}

// begin numbers an operation.
func (o *operations) begin() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	o.open[o.last] = struct{}{}
	return o.last
}

// of describes an operation.
func (o *operations) of(number int64) *store.Once {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.last
	for n := range o.open {
		known = min(known, n)
	}
	return &store.Once{By: o.by, Number: number, Known: known}
}

// end records that an operation is not repeated.
func (o *operations) end(number int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, number)
}

// unsure reports whether the operation of an error may have been done.
func unsure(err error) bool {
	return errors.Is(err, store.ErrUnreachable) && !errors.Is(err, errResting)
}

// charges reports whether a note charges something: to heed it twice would charge that twice.
func charges(n *store.Note) bool { return n.Kind == store.NoteSettle && n.Actual > n.Cost }
