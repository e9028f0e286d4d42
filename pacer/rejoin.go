package pacer

import (
	"context"
	"errors"
	"slices"
	"time"
)

// run says that the process is there, and tries to come back when it is alone.
func (w *watched) run() {
	defer close(w.finished)
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	pause, last, described := firstBeat, time.Now(), time.Time{}
	for {
		select {
		case <-w.closing:
			return
		case <-w.kick:
		case <-timer.C:
		}
		ctx, next := context.Background(), lookEvery
		if w.state.Load() == together && (time.Since(last) >= pause || w.uneasy()) {
			// Those who came at the same time as this process are soon known: it beats sooner at first.
			pause, last = min(2*pause, beatEvery), time.Now()
			began := w.now()
			w.parted(w.beat(ctx), began)
		}
		if w.state.Load() == together && time.Since(described) >= beatEvery {
			described = time.Now()
			w.describe(ctx, false)
		}
		if w.state.Load() == apart {
			wait, err := w.rejoin(ctx)
			switch {
			case err != nil:
				next = probeEvery
			case wait > 0:
				next = wait
			default:
				pause = firstBeat
			}
		}
		timer.Reset(next)
	}
}

// uneasy reports whether calls wait for slots that the store granted while nothing has been heard of it for a while. A
// process that loses the store must know when that was: until then others have got slots that it does not know of.
func (w *watched) uneasy() bool {
	w.mu.Lock()
	silence := time.Since(w.toldAt)
	w.mu.Unlock()
	line := Instant(w.latest.Load()).Sub(w.now())
	return line > 0 && silence >= max(lookEvery, min(beatEvery, line/16))
}

// beat says that the process is there, and what it has not said yet. It returns a ForgotError if the store is not the one
// that it was.
func (w *watched) beat(ctx context.Context) error {
	p, err := w.pulse(ctx, beatLives, 0)
	if err != nil {
		return err
	}
	if !w.wasReset(p.Era) {
		return &ForgotError{Era: p.Era}
	}
	return w.settle(ctx)
}

// describe tells a store that is a Registry what there is to say of this process. Nobody's call depends on it.
func (w *watched) describe(ctx context.Context, left bool) {
	registry, ok := w.store.(Registry)
	if !ok {
		return
	}
	about, told := w.about(w.now(), left)
	about.ID, about.Keep = w.id, w.keep
	err := w.within(ctx, "describe", func(ctx context.Context) error { return registry.Describe(ctx, w.upstream, about) })
	if err == nil {
		told()
	}
}

func (w *watched) pulse(ctx context.Context, lives, gather time.Duration) (Pulse, error) {
	var p Pulse
	b := Beat{ID: w.id, Lives: lives, Now: Instant(w.told.Load()), Keep: w.keep, Gather: gather}
	answer := make(chan Pulse, 1)
	err := w.reach(ctx, "beat", func(ctx context.Context) error {
		p, err := w.store.Beat(ctx, w.upstream, b)
		answer <- p
		return err
	})
	if err != nil {
		return p, err
	}
	p = <-answer
	w.heardNow(p.Now)
	w.count(p.Alive, p.Rank)
	return p, nil
}

// rejoin comes back to the fleet, or returns for how long the process still has to wait for the others.
func (w *watched) rejoin(ctx context.Context) (time.Duration, error) {
	w.joining.Lock()
	defer w.joining.Unlock()
	if w.state.Load() == together {
		return 0, nil
	}
	if w.waiting.Load() >= maxProbes {
		return 0, errResting
	}
	wait, err := w.join(ctx)
	if err != nil {
		w.gather = 0
		w.failed(err)
	}
	return wait, err
}

// join tells the store everything that it should know, and makes it the one that decides. The caller holds joining.
//
// Processes that lost the store do not find it again at the same moment. If the first to come back got all of the limits
// while the others still spend their shares, the upstream would see too much. So they agree on a time, go on alone until
// then, and come back together.
func (w *watched) join(ctx context.Context) (wait time.Duration, err error) {
	if w.gather == 0 {
		gather := time.Duration(0)
		if w.state.Load() == apart && w.outage == PaceAlone {
			gather = 2*probeEvery + w.timeout
		}
		p, err := w.pulse(ctx, beatLives, gather)
		if err != nil {
			return 0, err
		}
		w.wasReset(p.Era)
		for _, m := range w.known.messages(p.Now) {
			if err := w.remind(ctx, m); err != nil {
				return 0, err
			}
		}
		w.era.Store(p.Era)
		if w.outage == PaceAlone {
			w.gather = min(p.Gather, p.Now+Instant(maxGather.Microseconds()))
		}
	}
	if wait := w.gather.Sub(w.now()); wait > 0 {
		return wait, nil
	}
	if err := w.settle(ctx); err != nil {
		return 0, err
	}
	if w.alone.leases != nil {
		for _, m := range w.alone.leases() {
			if err := w.remind(ctx, m); err != nil {
				return 0, err
			}
		}
	}
	w.gather = 0
	w.lost.Store(0)
	w.absences.Add(1) // the next one is another
	if w.state.Swap(together) == apart {
		w.isBack()
	}
	if heard := w.heard.Load(); heard != nil {
		(*heard)(News{Changes: []Change{{Kind: rejoined, Now: w.now()}}})
	}
	return 0, w.settle(ctx) // what was spent in the very last moment
}

// settle tells the store what was spent alone.
func (w *watched) settle(ctx context.Context) error {
	b := w.alone.take()
	err := w.pay(ctx, &b)
	if err != nil {
		w.alone.put(b)
	}
	return err
}

// remind tells the store what it knew. A key that holds something else must not keep the others from being told.
func (w *watched) remind(ctx context.Context, m message) error {
	err := w.say(ctx, m.limits, m.notes)
	if err == nil || !w.unfit(err) {
		return err
	}
	for i := range m.limits {
		var notes []Note
		for _, n := range m.notes {
			if n.Limit == i {
				n.Limit = 0
				notes = append(notes, n)
			}
		}
		if err := w.say(ctx, m.limits[i:i+1], notes); err != nil && !w.unfit(err) {
			return err
		}
	}
	return nil
}

// pay tells the store what was spent alone, and what else it was not told. What is paid leaves the bill. What is given back
// comes first: it may be what was spent.
func (w *watched) pay(ctx context.Context, b *bill) error {
	now := w.now()
	if err := w.payOwed(ctx, b, true); err != nil {
		return err
	}
	for k, t := range b.spent {
		if err := w.say(ctx, []Limit{t.limit}, t.due(int64(now))); err != nil && !w.unfit(err) {
			return err
		}
		delete(b.spent, k)
	}
	for k, p := range b.pauses {
		if d := p.until.Sub(now); d > 0 {
			var limits []Limit
			note := Note{Kind: NotePause, Limit: WholeUpstream, For: d}
			if k != (pauseKey{}) {
				limits, note.Limit = []Limit{p.limit}, 0
			}
			if err := w.say(ctx, limits, []Note{note}); err != nil && !w.unfit(err) {
				return err
			}
		}
		delete(b.pauses, k)
	}
	return w.payOwed(ctx, b, false)
}

// payOwed gives grants back, or says notes.
func (w *watched) payOwed(ctx context.Context, b *bill, grants bool) error {
	for i := 0; i < len(b.owed); {
		d := &b.owed[i]
		if (d.grants != nil) != grants {
			i++
			continue
		}
		var err error
		if grants {
			err = w.giveBack(ctx, &Stack{Upstream: w.upstream, Limits: d.limits}, d.grants)
		} else {
			err = w.say(ctx, d.limits, d.notes)
		}
		if err != nil && !w.unfit(err) {
			return err
		}
		b.owed = slices.Delete(b.owed, i, i+1)
	}
	return nil
}

// unfit reports whether an error is about one stack only, so that saying it again would not help.
func (w *watched) unfit(err error) bool {
	return !errors.Is(err, ErrUnreachable) && w.store.Fault(err) == Unfit
}

// say tells the store notes about some limits.
func (w *watched) say(ctx context.Context, limits []Limit, notes []Note) error {
	if len(notes) == 0 {
		return nil
	}
	stack := Stack{Upstream: w.upstream, Limits: slices.Clone(limits)} // the operation may last longer than this
	return w.reach(ctx, "report", func(ctx context.Context) error {
		_, _, err := w.store.Report(ctx, stack, notes)
		return err
	})
}

func (w *watched) giveBack(ctx context.Context, stack *Stack, grants []Grant) error {
	for i := range grants {
		for j, c := range grants[i].Charges {
			w.known.disowned(&stack.Limits[j], c, max(c.To, -c.To))
		}
	}
	copied, theirs := stack.copied(), copyGrants(grants) // the operation may last longer than this
	err := w.reach(ctx, "cancel", func(ctx context.Context) error { return w.store.Cancel(ctx, copied, theirs) })
	if err == nil {
		w.known.cancelled(stack, grants)
	}
	return err
}
