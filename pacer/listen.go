package pacer

import (
	"context"
	"slices"
	"sync"

	"github.com/headway-go/headway/pacer/internal/notes"
	"github.com/headway-go/headway/pacer/store"
)

// listening receives pauses that other processes report, from when the first call of this Pacer waits until the Pacer
// is closed. A call that does not have to wait needs no changes: its store knows them.
type listening struct {
	once sync.Once
	stop func() // nil if not listening
}

// listen begins to listen. Only calls that count in p.waiting may call it: Close looks at stop when those are gone.
func (p *Pacer) listen() {
	p.listening.once.Do(func() {
		if n, ok := p.store.(store.Notifier); ok {
			p.listening.stop = n.Listen(p.upstream, p.received)
		}
	})
}

// received applies news from the store. If the store may have been away, or has forgotten, received checks at once
// whether it still is what it was: calls that wait have slots that the store would give to others.
func (p *Pacer) received(n store.News) {
	ctx := context.Background()
	if n.Missed {
		p.waiters.retryAll()
		p.later(func() { p.catchUp(ctx) })
	}
	if len(n.Changes) == 1 && n.Changes[0].Kind == store.Resync {
		p.later(func() { p.exchange(ctx) })
		return
	}
	if p.member != nil && (n.Missed || slices.ContainsFunc(n.Changes, func(c store.Change) bool { return c.Kind == store.EpochBegan })) {
		p.member.Check()
	}
	p.changed(ctx, n.Changes)
}

// changed moves the waiters whose slots are no longer good: see later.
func (p *Pacer) changed(ctx context.Context, changes []store.Change) {
	rest := changes[:0:0]
	for i := range changes {
		switch changes[i].Kind { //nolint:exhaustive // the others concern calls that wait
		case store.Wake:
			p.waiters.wake(changes[i].ID)
		case store.EpochBegan:
		default:
			rest = append(rest, changes[i])
		}
	}
	if changes = rest; len(changes) == 0 {
		return
	}
	caught, news := p.waiters.apply(changes)
	p.pausesChanged(news)
	if len(caught) > 0 {
		p.later(func() { p.move(ctx, caught) })
	}
}

// maxCatchUp bounds how many different limits are checked, in a few requests, after news may have been missed. A
// limit that is not checked may cost a refusal.
const maxCatchUp = 16 * notes.MaxLimits

// catchUp asks the store which limits of the waiters are paused.
func (p *Pacer) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	limits := p.waiters.limits(maxCatchUp)
	for first := true; first || len(limits) > 0; first = false {
		some := limits[:min(len(limits), notes.MaxLimits)]
		limits = limits[len(some):]
		seen, err := p.pauses(ctx, store.Stack{Upstream: p.upstream, Limits: some})
		if err != nil || p.isClosed() {
			return
		}
		var paused []store.Change
		if seen.Paused > 0 {
			paused = append(paused, store.Change{Kind: store.Paused, Now: seen.Now, Until: seen.Paused})
		}
		for i := range seen.Limits {
			if l := &some[i]; seen.Limits[i].Paused > 0 {
				paused = append(paused, store.Change{Kind: store.Paused, Policy: l.Policy, Scope: l.Scope, Now: seen.Now, Until: seen.Limits[i].Paused})
			}
		}
		p.changed(ctx, paused)
	}
}

// pauses asks the store which limits of a stack are paused.
func (p *Pacer) pauses(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	if p.member != nil {
		return p.member.Pauses(ctx, stack)
	}
	return p.store.Status(ctx, stack)
}
