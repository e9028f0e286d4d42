package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// maxReminders bounds how often one request reminds a store that forgets again and again.
const maxReminders = 4

// Reserve implements [store.Store].
func (w *Store) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	return store.InParts(grants, func(done int) error {
		one := []store.Batch{{Stack: stack.Clone(), Calls: slices.Clone(calls[done:]), Grants: make([]store.Grant, len(calls)-done)}}
		var errs [1]error
		if w.ReserveEach(ctx, one, errs[:]); errs[0] != nil {
			return errs[0]
		}
		copy(grants[done:], one[0].Grants)
		return nil
	}, func(all []store.Grant) { _ = w.Cancel(context.WithoutCancel(ctx), stack, all) })
}

// ReserveEach implements [store.Member].
func (w *Store) ReserveEach(ctx context.Context, batches []store.Batch, errs []error) {
	ask, err := w.ensureJoined(ctx)
	switch {
	case err != nil:
		for i := range errs {
			errs[i] = err
		}
	case ask:
		for _, i := range w.reserveShared(ctx, batches, errs) {
			errs[i] = w.reserveAlone(ctx, &batches[i], ask)
		}
	default:
		for i := range batches {
			errs[i] = w.reserveAlone(ctx, &batches[i], ask)
		}
	}
}

// reserveShared lets the shared store decide, and returns the batches that it left undecided.
func (w *Store) reserveShared(ctx context.Context, batches []store.Batch, errs []error) (rest []int) {
	began, known, sent := w.Now(), w.knownEpoch(), time.Now()
	for i := range batches {
		w.returned(&batches[i].Stack, batches[i].Calls)
	}
	lost := func(err error) bool { return w.fellBack(err, began) }
	if w.isChanging() { // the store would refuse, because of the next change
		w.sendHeeding(ctx, store.Epoch{Began: known.Began, Resets: store.AnyResets}, batches, errs)
	} else {
		w.send(ctx, batches, errs)
		met := func(err error) bool { f := forgot(err); return f != nil && f.Epoch.Began == known.Began }
		sendAgain(batches, errs, where(errs, met), func(some []store.Batch, errs []error) {
			w.sendHeeding(ctx, forgot(errs[0]).Epoch, some, errs)
		})
	}
	rest = where(errs, lost)
	// The process reminds a store that can be reached of what it forgot, at once, unless that takes long, or the process can decide without
	// the store meanwhile.
	for n := 0; n < maxReminders && time.Since(sent) < w.config.Timeout && len(rest) > 0 && forgot(errs[rest[0]]) != nil && w.config.Mode != Local; n++ {
		if _, failed := w.resync(ctx); failed != nil {
			break
		}
		began = w.Now()
		sendAgain(batches, errs, rest, func(some []store.Batch, errs []error) { w.send(ctx, some, errs) })
		rest = where(errs, lost)
	}
	return rest
}

// where returns the indices of the errors that satisfy is.
func where(errs []error, is func(error) bool) (all []int) {
	for i, err := range errs {
		if err != nil && is(err) {
			all = append(all, i)
		}
	}
	return all
}

// sendAgain sends some batches once more, if there are any, with the errors that they have.
func sendAgain(batches []store.Batch, errs []error, which []int, send func(some []store.Batch, errs []error)) {
	if len(which) == 0 {
		return
	}
	some, theirs := make([]store.Batch, len(which)), make([]error, len(which))
	for k, i := range which {
		some[k], theirs[k] = batches[i], errs[i]
	}
	send(some, theirs)
	for k, i := range which {
		errs[i] = theirs[k]
	}
}

// reserveAlone decides without the shared store, by the mode. The last argument is whether there was a request before.
func (w *Store) reserveAlone(ctx context.Context, b *store.Batch, asked bool) error {
	switch w.config.Mode {
	case Local:
		if b.Grants = make([]store.Grant, len(b.Calls)); !asked { // a request that nobody waits for may still use those
			w.returned(&b.Stack, b.Calls)
		}
		calls, away := w.withoutHeld(&b.Stack, b.Calls), w.absence()
		waitsFor := store.BindsStore
		if away.over == nil {
			var err error
			if waitsFor, err = w.local.reserve(ctx, &w.ledger, &b.Stack, calls, b.Grants, away); err != nil || waitsFor == store.BindsNothing {
				return err
			}
		}
		w.postpone(calls, b.Grants, waitsFor)
		return nil
	case LetThrough:
		now := w.Now()
		for i := range b.Grants {
			b.Grants[i] = store.Grant{OK: true, Now: now, At: now, Binds: store.BindsNothing, Charges: make([]store.Charge, len(b.Stack.Limits)), Local: true}
		}
		return nil
	case Refuse:
	}
	return w.refused()
}

// sendHeeding sends batches while the process applies an epoch, whatever was reset or set since. send waits until the epoch is applied.
func (w *Store) sendHeeding(ctx context.Context, epoch store.Epoch, batches []store.Batch, errs []error) {
	w.heeded.Add(1)
	defer w.heeded.Add(-1)
	var heeding sync.WaitGroup
	defer heeding.Wait()
	select {
	case w.turning <- struct{}{}:
		heeding.Go(func() { _, _ = w.heed(ctx, epoch) })
	default: // another operation heeds it, or the next one will
	}
	w.send(ctx, batches, errs)
}

// postpone answers calls of a process that may not decide about them yet. Queued calls poll after a while; of the others those of a process
// without a share wait in Await, and the rest is refused.
func (w *Store) postpone(calls []store.Call, grants []store.Grant, waitsFor int) {
	now := w.Now()
	for i := range calls {
		queued := calls[i].ID != 0 && calls[i].MaxWait > 0
		grants[i] = store.Grant{Now: now, At: now.Add(2 * probeEvery), AtLeast: !queued, Binds: waitsFor, Charges: grants[i].Charges[:0], Queued: queued}
	}
}

// returned forgets the slots that calls give back with their request: the store may grant the same ones again.
func (w *Store) returned(stack *store.Stack, calls []store.Call) {
	for i := range calls {
		if calls[i].Held != nil {
			w.forgets(stack, []store.Grant{{Charges: calls[i].Held}})
		}
	}
}

// withoutHeld returns calls without the slots that they hold: those are the shared store's.
func (w *Store) withoutHeld(stack *store.Stack, calls []store.Call) []store.Call {
	if !slices.ContainsFunc(calls, func(c store.Call) bool { return c.Held != nil }) {
		return calls
	}
	own := slices.Clone(calls)
	for i := range own {
		if held := own[i].Held; held != nil {
			own[i].Held = nil
			w.local.drop(stack, []store.Grant{{Charges: held}})
		}
	}
	return own
}

// Cancel implements [store.Store].
func (w *Store) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	return w.CancelAll(ctx, []store.Batch{{Stack: stack, Grants: grants}})
}

// CancelAll implements [store.Bulk].
func (w *Store) CancelAll(ctx context.Context, batches []store.Batch) error {
	var theirs []store.Batch
	for i := range batches {
		stack := &batches[i].Stack
		var mine, rest []store.Grant
		for _, g := range batches[i].Grants {
			if g.Local {
				mine = append(mine, g)
			} else {
				rest = append(rest, g)
			}
		}
		w.forgets(stack, rest)
		if len(mine) > 0 && w.config.Mode == Local {
			known, err := w.local.cancel(ctx, stack.Upstream, mine)
			if err != nil {
				return err
			}
			for j := range known {
				theirs = append(theirs, batch.Refunds(&known[j].Stack, known[j].Grants)...)
			}
		}
		theirs = append(theirs, batch.Refunds(stack, rest)...)
	}
	_, err := w.cancels.Do(ctx, theirs...)
	return err
}

func (w *Store) owe(d debt) {
	w.local.mu.Lock()
	defer w.local.mu.Unlock()
	w.local.owe(d)
}

// Exchangeable implements [store.Exchanger].
func (w *Store) Exchangeable(g *store.Grant) bool {
	t := localGrantOf(g)
	return t != nil && !t.over.Load() && w.state.Load() == shared
}

// Returning implements [store.Exchanger]. The others have all of the limits from the barrier on. The report of this process's spending may
// take many requests: nobody waits for more than one.
func (w *Store) Returning(g *store.Grant) bool {
	return localGrantOf(g) != nil && w.isReturningAt(g.At)
}

func (w *Store) isReturningAt(at store.Instant) bool {
	barrier := store.Instant(w.barrier.Load())
	return barrier > 0 && at >= barrier && w.Now() < barrier.Add(w.config.Timeout)
}

// Report implements [store.Store]. A pause or a charge is undone now or not at all: later that could undo a newer one. So while the state
// is local, a resumption and a reset are heeded by this process alone, and return an error.
func (w *Store) Report(ctx context.Context, stack store.Stack, notes []store.Note) (now store.Instant, changed int, err error) {
	ask, err := w.ensureJoined(ctx)
	if err != nil && !errors.Is(err, store.ErrNoContact) { // what is reported before the first contact is reported with it
		return 0, 0, err
	}
	var number int64
	if began := w.Now(); ask {
		if now, changed, number, err = w.reportShared(ctx, stack, notes); !w.fellBack(err, began) {
			return now, changed, err
		}
	} else {
		w.ledger.settled(&stack, notes)
	}
	if w.config.Mode == Local {
		now, changed, err = w.local.report(ctx, &stack, notes, w.absence(), number)
		if err == nil && slices.ContainsFunc(notes, func(n store.Note) bool { return n.Kind == store.NoteResume || n.Kind == store.NoteReset }) {
			err = fmt.Errorf("%w: this process heeds it, but the fleet may not: do it again when the store is back", w.refused())
		}
		return now, changed, err
	}
	w.once.end(number)
	if w.config.Mode == LetThrough {
		return w.Now(), 0, nil
	}
	return 0, 0, w.refused()
}

// reportShared reports notes to the shared store. If it is not known whether it heeded them, and that matters, it returns the number of
// the operation as well.
func (w *Store) reportShared(ctx context.Context, stack store.Stack, notes []store.Note) (now store.Instant, changed int, number int64, err error) {
	stack = stack.Clone()
	w.ledger.settled(&stack, notes)
	// A call that was granted locally and is settled with the store: a rate's interval was never the store's.
	kept := make([]store.Note, 0, len(notes))
	for i := range notes {
		n := &notes[i]
		if n.Kind == store.NoteSettle && n.Actual < n.Cost {
			l := &stack.Limits[n.Limit]
			if n.Local && l.Spec.Algorithm == specs.GCRA {
				continue
			}
		}
		kept = append(kept, *n)
		if last := &kept[len(kept)-1]; n.Kind == store.NoteAnswer && n.Local {
			last.Cost = 0 // which the store does not know
		}
	}
	if now, changed, number, err = w.report(ctx, w.reachInTurn, stack.Limits, kept, 0); err != nil {
		return 0, 0, number, err
	}
	w.observe(now)
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for i := range kept {
		n := &kept[i]
		if n.Kind == store.NoteAnswer && n.Remaining > 0 {
			w.ledger.of(&stack.Limits[n.Limit], int64(now)).paused = 0
		}
		if d := n.Empties(); d > 0 {
			w.ledger.pause(&stack.Limits[n.Limit], now.Add(d), int64(now))
		}
	}
	return now, changed, 0, nil
}

// Status implements [store.Store].
func (w *Store) Status(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	return w.look(ctx, stack, w.store.Status)
}

// Pauses implements [store.Bulk].
func (w *Store) Pauses(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	return w.look(ctx, stack, w.store.Pauses)
}

func (w *Store) look(ctx context.Context, stack store.Stack, how func(context.Context, store.Stack) (store.StackStatus, error)) (store.StackStatus, error) {
	ask, err := w.ensureJoined(ctx)
	if err != nil {
		return store.StackStatus{}, err
	}
	if began := w.Now(); ask {
		copied := stack.Clone()
		s, err := answerOf(ctx, w.reachInTurn, "status", func(ctx context.Context) (store.StackStatus, error) { return how(ctx, copied) })
		if !w.fellBack(err, began) {
			return s, err
		}
	}
	if w.config.Mode != Local {
		return store.StackStatus{}, w.refused()
	}
	w.local.mu.Lock()
	defer w.local.mu.Unlock()
	return w.local.store.Status(ctx, w.local.share(&stack, w.absence()))
}

// Listen implements [store.Notifier].
func (w *Store) Listen(upstream string, listener func(store.News)) (stop func()) {
	w.listener.Store(&listener)
	quiet := w.local.store.Listen(upstream, func(n store.News) {
		// Of its own local news, this process needs only which queued call is to wake.
		if len(n.Changes) > 0 && n.Changes[0].Kind == store.Wake {
			listener(n)
		}
	})
	n, ok := w.store.(store.Notifier)
	if !ok {
		return quiet
	}
	loud := n.Listen(upstream, listener)
	return func() {
		quiet()
		loud()
	}
}

// Echoes implements [store.Member].
func (w *Store) Echoes() bool {
	_, ok := w.store.(store.Notifier)
	return ok && w.state.Load() == shared
}
