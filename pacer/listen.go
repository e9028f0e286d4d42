package pacer

import (
	"context"
	"sync"
)

// listening hears of pauses that others report, from when the first call of this Pacer sleeps until it is closed. A
// call that has to wait for nothing needs to hear of nothing: its store knows.
type listening struct {
	once sync.Once
	stop func() // nil: not listening
}

// listen begins to listen. Only calls that count in p.waiting may begin: Close looks at stop when those are gone.
func (p *Pacer) listen() {
	p.listening.once.Do(func() {
		if n, ok := p.store.(Notifier); ok {
			p.listening.stop = n.Listen(p.upstream, p.heard)
		}
	})
}

// heard takes news from the store.
func (p *Pacer) heard(n News) {
	ctx := context.Background()
	if n.Missed {
		p.catchUp(ctx)
	}
	var paused, resumed []Pause
	for _, s := range n.Said {
		if s.Until > 0 {
			paused = append(paused, s)
		} else {
			resumed = append(resumed, s)
		}
	}
	p.paused(ctx, paused)
	p.resumed(ctx, resumed)
}

// paused moves the sleepers whose slot falls inside pauses behind them.
func (p *Pacer) paused(ctx context.Context, said []Pause) {
	if len(said) == 0 {
		return
	}
	if caught := p.sleepers.pause(said); len(caught) > 0 {
		p.move(ctx, caught)
	}
}

// resumed lets the sleepers that may have waited for the end of a pause reserve again.
func (p *Pacer) resumed(ctx context.Context, said []Pause) {
	if len(said) == 0 {
		return
	}
	if caught := p.sleepers.resume(said); len(caught) > 0 {
		p.move(ctx, caught)
	}
}

// maxCatchUp bounds how many different stacks are looked at after news may have been missed. What is not looked at may
// cost a refusal.
const maxCatchUp = 256

// catchUp asks the store what is paused of what the sleepers need.
func (p *Pacer) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var said []Pause
	for _, stack := range p.sleepers.stacks(maxCatchUp) {
		seen, err := p.store.Status(ctx, stack)
		if err != nil {
			break
		}
		if seen.Paused > 0 {
			said = append(said, Pause{Now: seen.Now, Until: seen.Paused})
		}
		for i := range seen.Limits {
			if l := &stack.Limits[i]; seen.Limits[i].Paused > 0 {
				said = append(said, Pause{Policy: l.Policy, Scope: l.Scope, Now: seen.Now, Until: seen.Limits[i].Paused})
			}
		}
	}
	p.paused(ctx, said)
}
