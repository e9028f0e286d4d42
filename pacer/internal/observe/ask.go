package observe

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

// Ask predicts a call, at once or in the background. A call without limits needs no request.
func (one *Observation) Ask(ctx context.Context) {
	if len(one.Limits) == 0 {
		one.state = isPast
		return
	}
	o, now := one.of, store.NowOf(one.of.Store)
	o.mu.Lock()
	one.epoch = o.epoch
	o.advance(ctx, now)
	switch {
	case o.closed:
		one.state = isRefused
	case len(o.pending) >= maxPending || len(o.virtual) >= maxVirtual:
		one.state = isRefused
		o.lost++
		o.start(ctx)
	case !o.Direct:
		o.pending = append(o.pending, one)
		o.start(ctx)
	default:
		o.mu.Unlock()
		o.ask(ctx, []*Observation{one})
		return
	}
	o.mu.Unlock()
}

// start has a goroutine send the requests of pending calls, and report how many were dropped. The caller holds mu.
func (o *Observer) start(ctx context.Context) {
	if !o.asking && !o.closed {
		o.asking = true
		o.busy.Go(func() { o.askAll(context.WithoutCancel(ctx)) })
	}
}

// askAll sends the requests of pending calls until there are no more.
func (o *Observer) askAll(ctx context.Context) {
	for {
		o.mu.Lock()
		all, lost := o.pending, o.lost
		o.pending, o.lost = nil, 0
		o.asking = len(all) > 0
		o.mu.Unlock()
		o.reportLost(lost)
		if len(all) == 0 {
			return
		}
		if m := o.Member; m != nil {
			if err := m.Await(ctx, time.Time{}, o.Calls.Dispatcher.Closed()); err != nil {
				o.lose(ctx, all)
				continue
			}
		}
		var asking sync.WaitGroup
		room := make(chan struct{}, maxAsking)
		for _, group := range byStack(all) {
			room <- struct{}{}
			asking.Go(func() {
				for some := range slices.Chunk(group, batch.MaxCalls) {
					if !telemetry.Guard("a store", func() { o.ask(ctx, some) }) {
						o.lose(ctx, some)
					}
				}
				<-room
			})
		}
		asking.Wait()
	}
}

// reportLost reports how many calls were dropped.
func (o *Observer) reportLost(n int64) {
	if n > 0 {
		o.Events.NotObserved(n)
	}
}

// lose counts dropped calls.
func (o *Observer) lose(ctx context.Context, all []*Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost += int64(len(all))
	for _, one := range all {
		one.state = isRefused
	}
	o.start(ctx)
}

// byStack groups calls by their stacks, in order.
func byStack(all []*Observation) (groups [][]*Observation) {
	seed, index := maphash.MakeSeed(), make(map[uint64]int)
	for _, one := range all {
		stack := one.stack()
		hash := stack.Hash(seed)
		i, known := index[hash]
		if known {
			first := groups[i][0].stack()
			known = first.Alike(&stack) // not if the policies have changed
		}
		if !known {
			i = len(groups)
			index[hash], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], one)
	}
	return groups
}

// ask requests predictions for calls of one stack.
func (o *Observer) ask(ctx context.Context, all []*Observation) {
	calls, grants := make([]store.Call, len(all)), make([]store.Grant, len(all))
	for i, one := range all {
		calls[i] = one.Call
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	if err := o.Store.Reserve(ctx, all[0].stack(), calls, grants); err != nil {
		o.lose(ctx, all)
		return
	}
	var back []*Observation
	for i, one := range all {
		if o.answered(ctx, one, &grants[i]) {
			back = append(back, one)
		}
	}
	o.giveBack(ctx, back)
}

// bounded returns a context for a request, with the values of a call's, since the call has gone. A member bounds its requests itself.
func (o *Observer) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if o.Member != nil || o.Direct {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, o.Timeout)
}

// stack returns the limits that are observed.
func (one *Observation) stack() store.Stack {
	return store.Stack{Upstream: one.of.Upstream, Limits: one.Limits}
}

// answered applies the store's answer about a call, and reports whether its slot must be given back.
func (o *Observer) answered(ctx context.Context, one *Observation, g *store.Grant) (back bool) {
	o.Events.Predicted(one.ctx, one, g) //nolint:contextcheck // the others of the request have their own
	counted := int64(0)
	if o.Meter.IsOn() {
		counted = o.Meter.Add(one.Limits, &one.Call, g.Now.Add(one.Delay), store.BindsNothing, 0)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(ctx, g.Now)
	switch {
	case !g.OK:
		one.state = isRefused
	case one.state == isOver:
		one.grant = *g
		return true
	case g.At > g.Now && (one.epoch != o.epoch || o.closed):
		one.grant, one.state = *g, isOver
		return true
	case g.At > g.Now:
		one.grant, one.state, one.counted = *g, isVirtual, counted
		i, _ := slices.BinarySearchFunc(o.virtual, g.At, func(a *Observation, at store.Instant) int { return cmp.Compare(a.grant.At, at) })
		o.virtual = slices.Insert(o.virtual, i, one)
	default:
		one.grant, one.state, one.counted = *g, isPast, counted
		o.settleIfKnown(ctx, one)
	}
	return false
}

// advance removes slots that have come from the virtual queue. The caller holds mu.
func (o *Observer) advance(ctx context.Context, now store.Instant) {
	for len(o.virtual) > 0 && o.virtual[0].grant.At <= now {
		one := o.virtual[0]
		o.virtual[0], o.virtual = nil, o.virtual[1:]
		if one.state == isVirtual {
			one.state = isPast
			o.settleIfKnown(ctx, one)
		}
	}
}
