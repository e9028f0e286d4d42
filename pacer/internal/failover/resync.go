package failover

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// maxReporting is how many reports are on their way at the same time. A process that returns with thousands of keys from far away must
// neither take long nor be all that the store works for.
const maxReporting = 4

// resync returns to the shared store, or returns for how long the process still has to wait for the others.
func (w *Store) resync(ctx context.Context) (time.Duration, error) {
	w.resyncing <- struct{}{}
	defer func() { <-w.resyncing }()
	if w.state.Load() == shared {
		return 0, nil
	}
	if w.pending.Load() >= maxProbes {
		return 0, errResting
	}
	wait, err := w.join(ctx)
	if err != nil {
		w.barrier.Store(0)
		w.local.returned()
		w.failed(err)
		w.matures()
	}
	return wait, err
}

// join reports to the store everything that it should know, and makes it the one that decides. The caller holds resyncing.
//
// Processes that lost the store do not find it again at the same moment. If the first to return got all of the limits
// while the others still spend their shares, the upstream would see too much. So they agree on a barrier: a time
// until which they stay local, and at which all of them return.
func (w *Store) join(ctx context.Context) (wait time.Duration, err error) {
	if w.barrier.Load() == 0 {
		if err := w.arrive(ctx); err != nil {
			return 0, err
		}
	}
	if wait := store.Instant(w.barrier.Load()).Sub(w.Now()); wait > 0 {
		return wait, nil
	}
	if err := w.settle(ctx, w.local.permits()); err != nil {
		return 0, err
	}
	w.mu.Lock()       // an operation may be about to fail
	w.absences.Add(1) // the next one is another
	was, away := w.state.Swap(shared), w.away.Swap(nil)
	w.mu.Unlock()
	w.barrier.Store(0)
	w.local.returned()
	away.end()
	if was == local || was == unknown && w.contact.wasReported() {
		w.reportReturn()
	}
	if listener := w.listener.Load(); listener != nil {
		(*listener)(store.News{Changes: []store.Change{{Kind: store.Resync, Now: w.Now()}}})
	}
	w.reportResumed()
	return 0, nil
}

// arrive reports that the process has found the store, and what must be known there before any process is granted more, and sets the barrier.
func (w *Store) arrive(ctx context.Context) error {
	began := time.Now()
	p, err := w.heartbeat(ctx, false, 0)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if w.failure.Load() == nil && took > w.config.Timeout && p.Alive > 1 && w.config.Processes == 0 {
		w.failed(w.overdue()) // others may have lost the store meanwhile: it can wait for them, as it has no share
	}
	// Only now: a barrier that no process has received would be over for those that come next. One that is set may be over before this is
	// answered.
	if until := w.untilAllAreBack(); until > 0 && p.Barrier <= p.Now {
		if took <= w.config.Timeout { // the store has been back for at least the time that the first one took
			until -= took
		}
		if p, err = w.heartbeat(ctx, false, until); err != nil {
			return err
		}
	}
	known := w.knownEpoch() // zero at the first contact, when all that is known is what the heartbeat has just brought
	forgotten := !known.IsZero() && p.Epoch.Began != known.Began || w.contradicted.Load()
	if _, err := w.wasReset(ctx, p.Epoch); err != nil {
		return err
	}
	if err := w.remind(ctx, p.Now, forgotten); err != nil {
		return err
	}
	w.epoch.Store(&p.Epoch)
	permits := w.local.permits()
	if away := w.away.Load(); away != nil && away.over == nil && w.config.Mode == Local {
		permits = append(permits, w.local.reserveShares(&w.ledger, permits, *away, int64(p.Barrier))...)
	}
	if _, err := w.sendReports(ctx, permits, nil); err != nil {
		return err
	}
	if w.config.Mode == Local {
		w.barrier.Store(min(int64(p.Barrier), int64(p.Now)+maxBarrier.Microseconds()))
	}
	return nil
}

// untilAllAreBack returns how long it takes at most until all who have lost the store know that it is back: a probe that fails, the pause
// after it, and one that is answered. A process that has never been there does not know for how long they have lost it, and what their
// pauses are; if its first attempt has found the store in time, it takes it that nobody has lost it.
func (w *Store) untilAllAreBack() time.Duration {
	pause := w.probePause()
	switch {
	case w.config.Mode != Local || w.failure.Load() == nil:
		return 0
	case w.knownEpoch().IsZero():
		pause = longestProbe
	}
	return pause*5/4 + w.schedule().Spread + 2*w.config.Timeout
}

// remind reports to the store what this process remembers, in case the store has forgotten it. If the store still has everything that its
// rates granted this process, remind omits what they granted others, who may have given it back since.
func (w *Store) remind(ctx context.Context, now store.Instant, forgotten bool) error {
	missing, err := w.sendReports(ctx, w.ledger.messages(now, forgotten), nil)
	if err == nil && missing > 0 && !forgotten {
		_, err = w.sendReports(ctx, w.ledger.messages(now, true), nil)
	}
	if err == nil {
		w.contradicted.Store(false)
	}
	return err
}

// payLast reports what the store does not know yet when the process leaves. It tries for the time that one request may take.
func (w *Store) payLast(ctx context.Context) {
	last := time.Now().Add(w.config.Timeout)
	w.last.Store(&last)
	for w.settle(ctx, nil) != nil && !w.isClosing() {
		time.Sleep(min(probeEvery, time.Until(last))) // the store was lost a moment ago, or is not back yet
	}
}

// settle is pay for all that has gone.
func (w *Store) settle(ctx context.Context, running []readings.Report) error {
	b := w.local.take()
	err := w.pay(ctx, &b, running)
	if err != nil {
		w.local.put(b)
	}
	return err
}

// sendReports sends the store reports whose order does not matter, unless the process is about to leave the fleet: then it returns
// store.ErrClosed. Sent is called for what need not be reported again; nil for nothing. It returns how many notes made a difference: see
// [store.Store].
func (w *Store) sendReports(ctx context.Context, all []readings.Report, sent func(*readings.Report)) (changed int, err error) {
	var (
		sending errgroup.Group
		mu      sync.Mutex
		failed  error
	)
	sending.SetLimit(maxReporting)
	for i := range all {
		sending.Go(func() error {
			mu.Lock()
			err := failed
			mu.Unlock()
			if err == nil && w.isClosing() {
				err = store.ErrClosed
			}
			did := 0
			if err == nil {
				did, err = w.sendReport(ctx, &all[i], func(m *readings.Report) {
					mu.Lock()
					defer mu.Unlock()
					if sent != nil {
						sent(m)
					}
				})
			}
			mu.Lock()
			defer mu.Unlock()
			failed, changed = cmp.Or(failed, err), changed+did
			return nil
		})
	}
	_ = sending.Wait()
	return changed, failed
}

// isClosing reports whether the process is about to leave the fleet, and must not report anything.
func (w *Store) isClosing() bool {
	if last := w.last.Load(); last != nil {
		return !time.Now().Before(*last)
	}
	select {
	case <-w.closing:
		return true
	default:
		return false
	}
}

// sendReport sends the store a report, and returns how many of its notes made a difference. A key that holds something else must not keep
// the others from arriving: then each limit's notes go by themselves. Sent is called for what arrived, is owed or never will arrive.
func (w *Store) sendReport(ctx context.Context, m *readings.Report, sent func(*readings.Report)) (changed int, err error) {
	_, did, number, err := w.report(ctx, w.reach, m.Limits, m.Notes, 0)
	if number > 0 {
		w.owe(debt{m.Limits, m.Notes, number})
	}
	if err == nil || number > 0 || w.unfit(err) && len(m.Limits) == 1 {
		sent(m)
	}
	if !w.unfit(err) {
		return did, err
	}
	for i := 0; i < len(m.Limits) && len(m.Limits) > 1; i++ {
		var one readings.Reports
		for _, n := range m.Notes {
			if n.Limit == i {
				one.Add(&m.Limits[i], n)
			}
		}
		for j := range one.All {
			did, err := w.sendReport(ctx, &one.All[j], sent)
			if changed += did; err != nil {
				return changed, err
			}
		}
	}
	return changed, nil
}

// unfit reports whether an error is about one stack only, so that to repeat it would not help.
func (w *Store) unfit(err error) bool {
	return !errors.Is(err, store.ErrUnreachable) && w.store.Fault(err) == store.Unfit
}

// report reports notes about some limits to the store, as the operation of a number if they charge something; 0: a new one. It
// returns how many made a difference, and the number if it is not known whether they arrived.
func (w *Store) report(
	ctx context.Context, by way, limits []store.Limit, notes []store.Note, number int64,
) (now store.Instant, changed int, again int64, err error) {
	if len(notes) == 0 {
		return w.Now(), 0, 0, nil
	}
	stack := store.Stack{Upstream: w.config.Upstream, Limits: slices.Clone(limits)} // the operation may last longer than this
	fresh := number == 0
	if !fresh || slices.ContainsFunc(notes, func(n store.Note) bool { return charges(&n) }) {
		if fresh {
			number = w.once.begin()
		}
		stack.Once = w.once.of(number)
	}
	type reply struct {
		now     store.Instant
		changed int
	}
	r, err := answerOf(ctx, by, "report", func(ctx context.Context) (r reply, err error) {
		r.now, r.changed, err = w.store.Report(ctx, stack, notes)
		return r, err
	})
	if stack.Once != nil && unsure(err) {
		return 0, 0, number, err
	}
	if stack.Once != nil && (fresh || !errors.Is(err, errResting)) {
		w.once.end(number)
	}
	return r.now, r.changed, 0, err
}
