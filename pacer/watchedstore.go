package pacer

import (
	"context"
	"slices"

	"github.com/headway-go/headway/policies"
)

// Reserve implements [Store].
func (w *watched) Reserve(ctx context.Context, stack Stack, calls []Call, grants []Grant) error {
	ask, err := w.asks(ctx)
	if err != nil {
		return err
	}
	if began := w.now(); ask {
		w.returned(&stack, calls)
		err = w.send(ctx, &stack, calls, grants)
		if f := forgot(err); f != nil && w.wasReset(f.Epoch) {
			err = w.send(ctx, &stack, calls, grants)
		}
		if !w.parted(err, began) {
			return err
		}
		// A store that can be reached is told at once what it forgot, unless the process can do without it meanwhile.
		if forgot(err) != nil && w.outage != PaceAlone {
			if _, err := w.rejoin(ctx); err == nil {
				return w.send(ctx, &stack, calls, grants)
			}
		}
	}
	switch w.outage {
	case PaceAlone:
		if !ask {
			w.returned(&stack, calls)
		}
		return w.alone.reserve(ctx, &w.known, &stack, w.disown(&stack, calls), grants, w.absence())
	case LetThrough:
		now := w.now()
		for i := range grants {
			grants[i] = Grant{OK: true, Now: now, At: now, Binds: BindsNothing, Charges: make([]Charge, len(stack.Limits)), Local: true}
		}
		return nil
	case RefuseCalls:
	}
	return w.refused()
}

// returned forgets the slots that calls give back as they ask: the store may grant the same ones again.
func (w *watched) returned(stack *Stack, calls []Call) {
	for i := range calls {
		for j, c := range calls[i].Held {
			w.known.disowned(&stack.Limits[j], c, max(c.To, -c.To))
		}
		if calls[i].Held != nil {
			w.known.cancelled(stack, []Grant{{Charges: calls[i].Held}})
		}
	}
}

// disown returns calls without the slots that they hold: those are the store's, which is told later that they are free.
func (w *watched) disown(stack *Stack, calls []Call) []Call {
	if !slices.ContainsFunc(calls, func(c Call) bool { return c.Held != nil }) {
		return calls
	}
	own := slices.Clone(calls)
	for i := range own {
		if held := own[i].Held; held != nil {
			own[i].Held = nil
			w.owe(debt{limits: stack.Limits, grants: []Grant{{OK: true, Charges: held}}})
		}
	}
	return own
}

// Cancel implements [Store].
func (w *watched) Cancel(ctx context.Context, stack Stack, grants []Grant) error {
	return w.cancelAll(ctx, []Batch{{Stack: stack, Grants: grants}})
}

// cancelAll gives grants of several stacks back.
func (w *watched) cancelAll(ctx context.Context, batches []Batch) error {
	var theirs []*refund
	for i := range batches {
		stack := &batches[i].Stack
		var mine, rest []Grant
		for _, g := range batches[i].Grants {
			if g.Local {
				mine = append(mine, g)
			} else {
				rest = append(rest, g)
			}
		}
		if len(mine) > 0 && w.outage == PaceAlone {
			notes, err := w.alone.cancel(ctx, stack, mine)
			if err != nil {
				return err
			}
			w.sayOrOwe(ctx, stack, notes)
		}
		theirs = append(theirs, refunds(ctx, stack, rest)...)
	}
	return w.giveBackAll(theirs)
}

// sayOrOwe tells the store notes now, or when it is back.
func (w *watched) sayOrOwe(ctx context.Context, stack *Stack, notes []Note) {
	if len(notes) == 0 {
		return
	}
	if began := w.now(); w.state.Load() == together && !w.parted(w.say(ctx, stack.Limits, notes), began) {
		return
	}
	w.owe(debt{limits: stack.Limits, notes: notes})
}

// copied returns a stack that stays as it is when the caller's is used for something else.
func (s *Stack) Clone() Stack {
	copied := *s
	copied.Limits = slices.Clone(s.Limits)
	return copied
}

func copyGrants(grants []Grant) []Grant {
	copied := slices.Clone(grants)
	for i := range copied {
		copied[i].Charges = slices.Clone(copied[i].Charges)
	}
	return copied
}

func (w *watched) owe(d debt) {
	w.alone.mu.Lock()
	defer w.alone.mu.Unlock()
	w.alone.owe(d)
}

// Exchangeable implements [Exchanger].
func (w *watched) Exchangeable(g *Grant) bool {
	t := ticketOf(g)
	return t != nil && !t.over.Load()
}

// Report implements [Store].
func (w *watched) Report(ctx context.Context, stack Stack, notes []Note) (now Instant, changed int, err error) {
	ask, err := w.asks(ctx)
	if err != nil {
		return 0, 0, err
	}
	if began := w.now(); ask {
		if now, changed, err = w.report(ctx, stack, notes); !w.parted(err, began) {
			return now, changed, err
		}
	}
	switch w.outage {
	case PaceAlone:
		n, rank := w.fleet()
		return w.alone.report(ctx, &stack, notes, n, rank)
	case LetThrough:
		return w.now(), 0, nil
	case RefuseCalls:
	}
	return 0, 0, w.refused()
}

func (w *watched) report(ctx context.Context, stack Stack, notes []Note) (Instant, int, error) {
	stack = stack.Clone()
	// A call that was paced alone and is settled with the store: a rate's interval was never the store's.
	kept := make([]Note, 0, len(notes))
	for i := range notes {
		n := &notes[i]
		if n.Kind == NoteSettle && n.Actual < n.Cost {
			l := &stack.Limits[n.Limit]
			switch {
			case !n.Local:
				w.known.disowned(l, n.Charge, n.Cost-n.Actual)
			case l.Spec.Algorithm == policies.GCRA:
				continue
			}
		}
		kept = append(kept, *n)
	}
	type reply struct {
		now     Instant
		changed int
	}
	answer := make(chan reply, 1)
	err := w.reach(ctx, "report", func(ctx context.Context) error {
		now, changed, err := w.store.Report(ctx, stack, kept)
		answer <- reply{now, changed}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	r := <-answer
	w.heardNow(r.now)
	w.known.mu.Lock()
	defer w.known.mu.Unlock()
	for i := range kept {
		if n := &kept[i]; n.Kind == NotePause {
			l := &Limit{}
			if n.Limit >= 0 {
				l = &stack.Limits[n.Limit]
			}
			w.known.pause(l, r.now+Instant(n.For.Microseconds()), int64(r.now))
		}
	}
	return r.now, r.changed, nil
}

// Status implements [Store].
func (w *watched) Status(ctx context.Context, stack Stack) (StackStatus, error) {
	return w.look(ctx, stack, w.store.Status)
}

// Pauses is Status, of which only what is paused is asked.
func (w *watched) Pauses(ctx context.Context, stack Stack) (StackStatus, error) {
	return w.look(ctx, stack, w.store.Pauses)
}

func (w *watched) look(ctx context.Context, stack Stack, how func(context.Context, Stack) (StackStatus, error)) (StackStatus, error) {
	ask, err := w.asks(ctx)
	if err != nil {
		return StackStatus{}, err
	}
	if began := w.now(); ask {
		answer, copied := make(chan StackStatus, 1), stack.Clone()
		err = w.reach(ctx, "status", func(ctx context.Context) error {
			s, err := how(ctx, copied)
			answer <- s
			return err
		})
		if err == nil {
			return <-answer, nil
		}
		if !w.parted(err, began) {
			return StackStatus{}, err
		}
	}
	if w.outage != PaceAlone {
		return StackStatus{}, w.refused()
	}
	w.alone.mu.Lock()
	defer w.alone.mu.Unlock()
	n, rank := w.fleet()
	return w.alone.store.Status(ctx, w.alone.share(&stack, n, rank))
}

// Listen implements [Notifier].
func (w *watched) Listen(upstream string, heard func(News)) (stop func()) {
	w.heard.Store(&heard)
	quiet := w.alone.store.Listen(upstream, func(n News) {
		// Of all that this process says to itself, it has to hear only who in line is called.
		if len(n.Changes) > 0 && n.Changes[0].Kind == Wake {
			heard(n)
		}
	})
	n, ok := w.store.(Notifier)
	if !ok {
		return quiet
	}
	loud := n.Listen(upstream, heard)
	return func() {
		quiet()
		loud()
	}
}

// tells reports whether a change is heard of without being told by whom it comes from.
func (w *watched) tells() bool {
	_, ok := w.store.(Notifier)
	return ok && w.state.Load() == together
}
