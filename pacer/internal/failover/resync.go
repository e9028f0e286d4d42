package failover

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/notes"
	"github.com/headway-go/headway/pacer/store"
)

// roughly returns a duration at random that is up to an eighth shorter or longer, so that processes that started at the same time do not
// stay so; sooner, one that is up to a quarter shorter.
func roughly(d time.Duration) time.Duration {
	return (d - d/8).Truncate(time.Millisecond) + within(d/4)
}

func sooner(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) - within(d/4) }

// within returns a duration at random from 0 to most, in whole milliseconds.
func within(most time.Duration) time.Duration { return rand.N(most + 1).Truncate(time.Millisecond) }

// maxTelling is how many reports are on their way at the same time. A process that returns with thousands of keys from far away must
// neither take long nor be all that the store works for.
const maxTelling = 4

// run sends heartbeats, and tries to return when the state is local.
func (w *Store) run() {
	timer := time.NewTimer(checkEvery)
	defer timer.Stop()
	pause := w.firstPause(firstHeartbeat)
	nextHeartbeat := time.Now().Add(roughly(pause))
	describe := time.Now().Add(within(w.schedule().Describe / 16))
	for {
		select {
		case <-w.closing:
			return
		case <-w.kick:
		case <-w.checks:
			if soon := time.Now().Add(within(w.schedule().Spread)); soon.Before(nextHeartbeat) {
				nextHeartbeat = soon
			}
		case <-timer.C:
		}
		ctx, next := context.Background(), checkEvery
		if w.state.Load() == shared && (!time.Now().Before(nextHeartbeat) || w.shouldCheck()) {
			// Processes that came at the same time as this one are soon known: the first heartbeats come sooner.
			pause = min(max(2*pause, w.firstPause(firstHeartbeat)), w.schedule().Heartbeat)
			nextHeartbeat = time.Now().Add(roughly(pause))
			began := w.Now()
			w.fellBack(w.renew(ctx), began)
		}
		if w.state.Load() == shared && !time.Now().Before(describe) {
			describe = time.Now().Add(sooner(w.schedule().Describe))
			w.describe(ctx, false)
		}
		if w.state.Load() == local {
			wait, err := w.resync(ctx)
			switch {
			case err != nil:
				next = max(probeEvery+time.Millisecond, roughly(w.probePause())) // no sooner than the breaker lets one pass
			case wait > 0:
				next = wait
			default:
				pause = w.firstPause(firstHeartbeat)
				nextHeartbeat = time.Now().Add(roughly(pause))
			}
		}
		if w.state.Load() == shared {
			next = min(next, max(1, time.Until(nextHeartbeat)))
		}
		timer.Reset(next)
	}
}

// firstPause returns the time to the second heartbeat of a process that has just come, at least: soon, but not all of a large fleet
// at once, and before its first one counts no more.
func (w *Store) firstPause(least time.Duration) time.Duration {
	return max(least, min(w.schedule().Heartbeat/16, heartbeatTTL/3))
}

// shouldCheck reports whether calls wait for slots that the store granted while it has not answered for a while. A process
// that loses the store must know when that was: until then others have got slots that it does not know of. Knowing it late
// does no harm but to its own pace (see startLocal). Calls that come near send requests of their own; this is for slots far away.
// A process learns by news, too, that a store has forgotten.
func (w *Store) shouldCheck() bool {
	w.mu.Lock()
	silence := time.Since(w.lastSeenAt)
	w.mu.Unlock()
	line := store.Instant(w.furthest.Load()).Sub(w.Now())
	return line > 0 && silence >= max(w.schedule().Check, min(heartbeatEvery, line/16))
}

// renew sends a heartbeat, and what is still to be reported. It returns a ForgotError if the store is not the one
// that it was.
func (w *Store) renew(ctx context.Context) error {
	p, err := w.heartbeat(ctx, false, 0)
	if err != nil {
		return err
	}
	if !w.wasReset(p.Epoch) {
		return &store.ForgotError{Epoch: p.Epoch}
	}
	return w.settle(ctx)
}

// describe describes this process to a store that is a Registry. Nobody's call depends on it.
func (w *Store) describe(ctx context.Context, left bool) {
	registry, ok := w.store.(store.Registry)
	if !ok || w.config.Describe == nil {
		return
	}
	about, told := w.config.Describe(w.Now(), left)
	about.ID, about.Keep = w.id, w.keep
	err := w.within(ctx, "describe", func(ctx context.Context) error { return registry.Describe(ctx, w.config.Upstream, about) })
	if err == nil {
		told()
	}
}

// heartbeat sends one, or reports that the process leaves.
func (w *Store) heartbeat(ctx context.Context, leaves bool, barrier time.Duration) (store.Membership, error) {
	var p store.Membership
	lives := time.Duration(0)
	if !leaves {
		lives = w.schedule().TTL
	}
	b := store.Heartbeat{ID: w.id, TTL: lives, Now: store.Instant(w.lastSeen.Load()), Keep: w.keep, Barrier: barrier}
	if !leaves {
		b.Limits = w.curious()
	}
	answer := make(chan store.Membership, 1)
	err := w.reach(ctx, "heartbeat", func(ctx context.Context) error {
		p, err := w.store.Heartbeat(ctx, w.config.Upstream, b)
		answer <- p
		return err
	})
	if err != nil {
		return p, err
	}
	p = <-answer
	w.observe(p.Now)
	w.count(p.Alive, p.Rank)
	if len(p.Holds) == len(b.Limits) {
		w.ledger.learned(b.Limits, p.Holds, p.Now)
	}
	return p, nil
}

// maxCurious is of how many scoped limits a heartbeat asks what they hold: others take turns.
const maxCurious = 16

// curious returns the limits of which this process wants to know what they hold: those without a scope, and some of those that it has
// used of late. A process that does not decide by itself needs none.
func (w *Store) curious() []store.Limit {
	if w.config.Mode != Local {
		return nil
	}
	return append(w.ledger.used(int64(w.Now().Add(-time.Minute)), maxCurious), w.unscoped...)
}

// resync returns to the shared store, or returns for how long the process still has to wait for the others.
func (w *Store) resync(ctx context.Context) (time.Duration, error) {
	w.resyncing.Lock()
	defer w.resyncing.Unlock()
	if w.state.Load() == shared {
		return 0, nil
	}
	if w.pending.Load() >= maxProbes {
		return 0, errResting
	}
	wait, err := w.join(ctx)
	if err != nil {
		w.barrier = 0
		w.failed(err)
	}
	return wait, err
}

// join reports to the store everything that it should know, and makes it the one that decides. The caller holds resyncing.
//
// Processes that lost the store do not find it again at the same moment. If the first to return got all of the limits
// while the others still spend their shares, the upstream would see too much. So they agree on a barrier: a time
// until which they stay local, and at which all of them return.
func (w *Store) join(ctx context.Context) (wait time.Duration, err error) {
	if w.barrier == 0 {
		barrier := time.Duration(0)
		if w.state.Load() == local && w.config.Mode == Local {
			barrier = 2*(w.probePause()+w.schedule().Spread) + w.config.Timeout
		}
		p, err := w.heartbeat(ctx, false, barrier)
		if err != nil {
			return 0, err
		}
		w.wasReset(p.Epoch)
		if err := w.tellAll(ctx, w.ledger.messages(p.Now), nil); err != nil {
			return 0, err
		}
		w.epoch.Store(&p.Epoch)
		if w.config.Mode == Local {
			w.barrier = min(p.Barrier, p.Now+store.Instant(maxBarrier.Microseconds()))
		}
	}
	if wait := w.barrier.Sub(w.Now()); wait > 0 {
		return wait, nil
	}
	if err := w.settle(ctx); err != nil {
		return 0, err
	}
	if w.local.permits != nil {
		if err := w.tellAll(ctx, w.local.permits(), nil); err != nil {
			return 0, err
		}
	}
	w.barrier = 0
	w.lostAt.Store(0)
	w.absences.Add(1) // the next one is another
	if was := w.state.Swap(shared); was == local || was == unknown && w.contact.wasReported() {
		w.reportReturn()
	}
	if heard := w.listener.Load(); heard != nil {
		(*heard)(store.News{Changes: []store.Change{{Kind: store.Resync, Now: w.Now()}}})
	}
	return 0, w.settle(ctx) // what was spent in the very last moment
}

// payLast reports what the store does not know yet when the process leaves, for as long as one request may take.
func (w *Store) payLast(ctx context.Context) {
	last := time.Now().Add(w.config.Timeout)
	w.last.Store(&last)
	for w.settle(ctx) != nil && !w.isClosing() {
		time.Sleep(min(probeEvery, time.Until(last))) // the store was lost a moment ago, or is not back yet
	}
}

// settle reports to the store what was spent locally.
func (w *Store) settle(ctx context.Context) error {
	b := w.local.take()
	err := w.pay(ctx, &b)
	if err != nil {
		w.local.put(b)
	}
	return err
}

// tellAll sends the store reports whose order does not matter, unless the process is about to leave the fleet: then it returns
// store.ErrClosed. Told is called for each that arrived, or is owed because it may have arrived; nil for nothing.
func (w *Store) tellAll(ctx context.Context, all []notes.Report, told func(*notes.Report)) error {
	var (
		telling errgroup.Group
		mu      sync.Mutex
		failed  error
	)
	telling.SetLimit(maxTelling)
	for i := range all {
		telling.Go(func() error {
			mu.Lock()
			err := failed
			mu.Unlock()
			if err == nil && w.isClosing() {
				err = store.ErrClosed
			}
			owed := false
			if err == nil {
				owed, err = w.tell(ctx, &all[i])
			}
			mu.Lock()
			defer mu.Unlock()
			failed = cmp.Or(failed, err)
			if (err == nil || owed) && told != nil {
				told(&all[i])
			}
			return nil
		})
	}
	_ = telling.Wait()
	return failed
}

// isClosing reports whether nothing more is to be reported, because the process is about to leave the fleet.
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

// tell sends the store a report. A key that holds something else must not keep the others from arriving. If it is not known whether
// all arrived, and that matters, what is not known to have arrived is owed.
func (w *Store) tell(ctx context.Context, m *notes.Report) (owed bool, err error) {
	say := func(limits []store.Limit, notes []store.Note) error {
		number, err := w.report(ctx, limits, notes, 0)
		if owed = number > 0; owed {
			w.owe(debt{limits: limits, notes: notes, number: number, since: time.Now()})
		}
		return err
	}
	if err := say(m.Limits, m.Notes); err == nil || !w.unfit(err) {
		return owed, err
	}
	// From here on some of it may have arrived, and the rest is owed.
	var failed error
	for i := store.WholeUpstream; i < len(m.Limits); i++ {
		var limits []store.Limit
		if i >= 0 {
			limits = m.Limits[i : i+1]
		}
		var notes []store.Note
		for _, n := range m.Notes {
			if n.Limit == i {
				n.Limit = min(i, 0)
				notes = append(notes, n)
			}
		}
		if len(notes) == 0 {
			continue
		}
		if failed == nil {
			if err := say(limits, notes); err != nil && !w.unfit(err) {
				failed = err
			}
		} else {
			w.owe(debt{limits: limits, notes: notes})
		}
	}
	return failed != nil, failed
}

// pay reports to the store what was spent locally, and what else it does not know. What is paid leaves the bill. What is given back
// comes first: it may be what was spent.
func (w *Store) pay(ctx context.Context, b *bill) error {
	now := w.Now()
	if err := w.payGrants(ctx, b); err != nil {
		return err
	}
	var due, pauses notes.Reports
	for k, t := range b.spent {
		notes := t.due(int64(now))
		if len(notes) == 0 {
			delete(b.spent, k)
		}
		due.Add(&t.limit, notes...)
	}
	err := w.tellAll(ctx, due.All, func(m *notes.Report) {
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
	for k, p := range b.pauses {
		d := p.until.Sub(now)
		switch {
		case d <= 0:
		case k == (store.Key{}):
			pauses.Add(nil, store.Note{Kind: store.NotePause, For: d})
		default:
			pauses.Add(&p.limit, store.Note{Kind: store.NotePause, For: d})
		}
	}
	if err := w.tellAll(ctx, pauses.All, nil); err != nil {
		return err
	}
	b.pauses = nil
	return w.payNotes(ctx, b)
}

// payGrants gives back what is owed of grants.
func (w *Store) payGrants(ctx context.Context, b *bill) error {
	var all []*batch.Refund
	rest := b.owed[:0:0]
	for i := range b.owed {
		d := &b.owed[i]
		switch {
		case (d.batches != nil || d.grants != nil) && (d.number > 0 && stale(d.since) || w.forgottenSince(d)):
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

// payAgain asks again for the operations of debts that gave grants back and may have been done, and drops what is paid.
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
		if d := &b.owed[0]; w.hasNumber(d) {
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

// hasNumber reports whether a debt is to be asked for by its number: it may have been paid. If the store cannot know that any more, or has
// lost its data, only what charges something is still owed.
func (w *Store) hasNumber(d *debt) bool {
	forgotten := w.forgottenSince(d)
	if forgotten || d.number > 0 && stale(d.since) {
		d.charging()
		w.once.end(d.number)
		d.number = 0
	}
	if forgotten {
		d.began = w.knownEpoch().Began
	}
	return d.number > 0
}

// owedNotes returns the first notes that are owed as reports, and how many debts they are: those up to one with a number, as long as they
// fit in one request.
func (w *Store) owedNotes(b *bill) (all []notes.Report, n int) {
	var m notes.Reports
	limits, said := 0, 0
	for ; n < len(b.owed); n++ {
		d := &b.owed[n]
		if w.hasNumber(d) {
			break
		}
		if limits, said = limits+len(d.limits), said+len(d.notes); n > 0 && (limits > notes.MaxLimits || said > notes.MaxNotes) {
			break
		}
		for i := range d.notes {
			var l *store.Limit
			if at := d.notes[i].Limit; at >= 0 {
				l = &d.limits[at]
			}
			m.Add(l, d.notes[i])
		}
	}
	return m.All, n
}

// payReports sends reports of the first n debts. There is one, but for a debt that is too large by itself. What fails is owed further on.
func (w *Store) payReports(ctx context.Context, b *bill, all []notes.Report, n int) error {
	for i := range all {
		if w.isClosing() {
			return store.ErrClosed
		}
		owed, err := w.tell(ctx, &all[i])
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
	if _, err := w.report(ctx, d.limits, d.notes, d.number); err != nil && !w.unfit(err) {
		return err
	}
	return nil
}

// charging leaves of a debt, of which it will never be known whether it was paid, what charges something: to charge it twice does no more
// than idle, and to give back twice would let others go.
func (d *debt) charging() {
	d.notes = slices.DeleteFunc(d.notes, func(n store.Note) bool { return n.Kind == store.NoteSettle && n.Actual <= n.Cost })
}

// unfit reports whether an error is about one stack only, so that saying it again would not help.
func (w *Store) unfit(err error) bool {
	return !errors.Is(err, store.ErrUnreachable) && w.store.Fault(err) == store.Unfit
}

// report reports notes about some limits to the store, as the operation of a number, if that matters; 0: a new one. If it is not known
// whether they arrived, it returns the number.
func (w *Store) report(ctx context.Context, limits []store.Limit, notes []store.Note, number int64) (int64, error) {
	if len(notes) == 0 {
		return 0, nil
	}
	stack := store.Stack{Upstream: w.config.Upstream, Limits: slices.Clone(limits)} // the operation may last longer than this
	fresh := number == 0
	if counts(notes) {
		if fresh {
			number = w.once.begin().Number
		}
		stack.Once = w.once.again(number)
	}
	err := w.reach(ctx, "report", func(ctx context.Context) error {
		_, _, err := w.store.Report(ctx, stack, notes)
		return err
	})
	if stack.Once == nil || unsure(err) {
		return number, err
	}
	if fresh || !errors.Is(err, errResting) {
		w.once.end(number)
	}
	return 0, err
}
