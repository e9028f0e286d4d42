package pacer

import (
	"context"
	"slices"
	"sync"

	"github.com/headway-go/headway/pacer/internal/notes"
	"github.com/headway-go/headway/pacer/store"
)

// listening receives pauses that others report, from when the first call of this Pacer waits until it is closed. A
// call that has to wait for nothing needs to hear of nothing: its store knows.
type listening struct {
	once sync.Once
	stop func() // nil: not listening
}

// listen begins to listen. Only calls that count in p.waiting may begin: Close looks at stop when those are gone.
func (p *Pacer) listen() {
	p.listening.once.Do(func() {
		if n, ok := p.store.(store.Notifier); ok {
			p.listening.stop = n.Listen(p.upstream, p.received)
		}
	})
}

// heard takes news from the store. That it may have been away, or has forgotten, is a reason to look whether it is what it was
// at once: who sleeps has slots that it would give to others.
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

// changed moves the sleepers whose slots are not good any more: see later.
func (p *Pacer) changed(ctx context.Context, changes []store.Change) {
	rest := changes[:0:0]
	for i := range changes {
		switch changes[i].Kind { //nolint:exhaustive // the others concern those who sleep
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

// maxCatchUp bounds how many different limits are looked at after news may have been missed, in a few requests. What is not
// looked at may cost a refusal.
const maxCatchUp = 16 * notes.MaxLimits

// catchUp asks the store what is paused of what the sleepers need.
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

// pauses asks the store what is paused of a stack.
func (p *Pacer) pauses(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	if p.member != nil {
		return p.member.Pauses(ctx, stack)
	}
	return p.store.Status(ctx, stack)
}
