package failover

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer/internal/charges"
	"github.com/headway-go/headway/pacer/internal/link"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// maxReporting bounds the reports under way: a process with thousands of keys must neither return slowly nor be all that the store works for.
const maxReporting = 4

// A payer reports to the shared store: notes of callers, what was spent locally, and what the store may have forgotten.
type payer struct {
	contact *contact
	bill    *charges.Bill
	once    numbers
	last    atomic.Pointer[time.Time] // while leaving: until when what is owed may still be paid
	turn    chan struct{}             // filled while it pays
}

// pay reports to the store what was spent locally, which calls run, and then everything else that it does not know. Charges come first, since
// all processes return at the same time; calls that run must be known before permits of others are given back.
func (p *payer) pay(ctx context.Context, running []readings.Report) error {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	charged, returned := p.bill.Due(p.contact.Now())
	_, err := p.sendAll(ctx, append(charged, charges.Debts(running, 0)...))
	if err == nil {
		_, err = p.sendAll(ctx, returned)
	}
	return err
}

// payLast reports what the store does not know yet when the process leaves. It tries for the time that one request may take.
func (p *payer) payLast(ctx context.Context) {
	last := time.Now().Add(p.contact.config.Timeout)
	p.last.Store(&last)
	for p.pay(ctx, nil) != nil && !p.isOver() {
		time.Sleep(min(probeEvery, time.Until(last))) // the store was lost a moment ago, or is not back yet
	}
}

// isOver reports whether the process is about to leave the fleet, and must not report anything.
func (p *payer) isOver() bool {
	if last := p.last.Load(); last != nil {
		return !time.Now().Before(*last)
	}
	return p.contact.link.IsClosing()
}

// sendAll sends the store reports whose order does not matter, unless the process is about to leave the fleet: then it returns
// store.ErrClosed. It returns how many notes made a difference: see [store.Store].
func (p *payer) sendAll(ctx context.Context, all []*charges.Debt) (changed int64, err error) {
	sending, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	sending.SetLimit(maxReporting)
	var did atomic.Int64
	for _, d := range all {
		sending.Go(func() error {
			err := failed.Err()
			if err == nil && p.isOver() {
				err = store.ErrClosed
			}
			if err == nil {
				err = p.sendOne(ctx, d, &did)
			}
			return err
		})
	}
	err = sending.Wait()
	return did.Load(), err
}

// sendOne sends the store a report, which has no notes afterwards if it need not be sent again. A key that holds something else must not keep
// the others from arriving: then each limit's notes go by themselves.
func (p *payer) sendOne(ctx context.Context, d *charges.Debt, did *atomic.Int64) error {
	isNew := d.Once == nil
	_, changed, err := p.report(ctx, false, d, d.StillDue(p.contact.Now()))
	did.Add(int64(changed))
	unfit := p.contact.link.IsUnfit(err)
	if err != nil && !unfit {
		return err
	}
	for i := 0; unfit && isNew && len(d.Limits) > 1 && i < len(d.Limits); i++ {
		part, rest := d.Part(i)
		if err := p.sendOne(ctx, part, did); err != nil && part.Once == nil {
			return err
		} else if d.Notes = rest; err != nil {
			p.bill.Keep(part)
			return err
		}
	}
	d.Notes = nil
	return nil
}

// report sends the store notes of a report, once if they charge something. The report keeps its number while it is not known whether the store
// applied them. It returns how many made a difference.
func (p *payer) report(ctx context.Context, ofCaller bool, d *charges.Debt, notes []store.Note) (now store.Instant, changed int, err error) {
	if len(notes) == 0 {
		return p.contact.Now(), 0, nil
	}
	stack := store.Stack{Upstream: p.contact.config.Upstream, Limits: slices.Clone(d.Limits)} // the operation may last longer than this
	isNew := d.Once == nil
	if isNew && slices.ContainsFunc(notes, func(n store.Note) bool { return charges.Adds(&n) }) {
		d.Once = p.once.begin()
	}
	stack.Once = d.Once
	type reply struct {
		now     store.Instant
		changed int
	}
	r, err := link.Ask(ctx, p.contact.link, link.Request{Name: "report", InTurn: ofCaller}, func(ctx context.Context, s store.Shared) (r reply, err error) {
		r.now, r.changed, err = s.Report(ctx, stack, notes)
		return r, err
	})
	resting := errors.Is(err, link.ErrResting)
	if unsure := errors.Is(err, store.ErrUnreachable) && !resting; d.Once != nil && !unsure && (isNew || !resting) {
		p.once.end(d.Once)
		d.Once = nil
	}
	return r.now, r.changed, err
}

// numbers are those of the reports of this process that charge something. One whose answer was lost is repeated with its number, and a store
// that has applied it does nothing then.
type numbers struct {
	by string

	mu   sync.Mutex
	last int64
	open map[int64]struct{} // those whose outcome is unknown
}

// begin numbers an operation. A store may forget all numbers below the first that is open.
func (o *numbers) begin() *store.Once {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	o.open[o.last] = struct{}{}
	return &store.Once{By: o.by, Number: o.last, Known: slices.Min(slices.Collect(maps.Keys(o.open)))}
}

// end records that an operation is not repeated.
func (o *numbers) end(once *store.Once) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, once.Number)
}
