package pacer

import (
	"context"
	"sync"

	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
)

// asked is what a call that waits has requested, so that it can be bound anew when the policies change.
type asked struct {
	pacer *Pacer
	opts  []Option // what those of ask are kept in

	mu       sync.Mutex
	ask      ask
	settling *settling // of a reservation: what its settlement has to know; nil if the call is not settled
}

// read reads what a call requests, and remembers it: the caller's options are not kept, and need not be on the heap.
func (k *asked) read(ctx context.Context, p *Pacer, opts []Option) (ask, error) {
	k.pacer = p
	k.opts = append(k.opts[:0], opts...)
	return p.newCall(ctx, k.opts)
}

// keep remembers how a call is bound.
func (k *asked) keep(a *ask, s *settling) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ask, k.settling = *a, s
}

// forget makes it one that nothing is kept in.
func (k *asked) forget() {
	clear(k.opts)
	k.opts = k.opts[:0]
	k.pacer, k.ask, k.settling = nil, ask{}, nil
}

// observes reports whether policies that are observed may bind the call.
func (k *asked) observes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask.set.observes
}

// now returns what the call requests, as it is bound now.
func (k *asked) now() ask {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask
}

// bound returns the policies by which the call is bound, and what its settlement has to know.
func (k *asked) bound() (*policySet, settling) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask.set, *k.settling
}

// Bind implements [waiters.Binder].
func (k *asked) Bind() (r waiters.Request, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, a := k.pacer, k.ask
	a.set, a.part = p.set(), enforcedPart
	if p.placeAsk(&a) != nil {
		return r, false
	}
	limits, err := p.bind(&a, nil)
	if err != nil {
		return r, false
	}
	var s *settling
	if k.settling != nil {
		s = new(settling)
	}
	limits, costs, err := p.costs(&a, a.share(limits), s)
	if err != nil {
		return r, false
	}
	r.Limits = limits
	r.Call = store.Call{Cost: a.cost, Costs: costs, Tracked: a.tracked && p.reconciles}
	if a.set.hasQueues && p.queueUp(&a, &r) != nil {
		return r, false
	}
	k.ask, k.settling = a, s
	return r, true
}
