package observe

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
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
	o.pending++
	lost := o.closed || o.pending > maxPending || len(o.virtual) >= maxVirtual
	o.mu.Unlock()
	switch {
	case lost:
		o.lose([]*Observation{one})
	case o.Direct:
		o.ask(ctx, []*Observation{one})
	default:
		o.requests.Add(one)
	}
}

// fit returns how many pending calls fit in a request.
func fit(all []*Observation) (n int) {
	for charges := 0; n < len(all) && all[n].set == all[0].set; n++ {
		if charges += len(all[n].Limits); n > 0 && charges > batch.MaxCalls {
			break
		}
	}
	return n
}

// askShared requests predictions for pending calls from a store that is not in memory.
func (o *Observer) askShared(all []*Observation) {
	ctx := context.WithoutCancel(all[0].ctx)
	o.mu.Lock()
	lost := o.closed
	o.mu.Unlock()
	if o.Member != nil {
		lost = o.Member.Await(ctx, time.Time{}, o.Calls.Dispatcher.Closed()) != nil
	}
	if lost || !telemetry.Guard("a store", func() { o.ask(ctx, all) }) {
		o.lose(all)
	}
}

// lose counts dropped calls.
func (o *Observer) lose(all []*Observation) {
	o.mu.Lock()
	o.pending -= len(all)
	for _, one := range all {
		one.state = isRefused
	}
	o.mu.Unlock()
	if len(all) > 0 {
		o.Events.NotObserved(int64(len(all)))
	}
}

// byStack groups calls by their stacks, in order, and returns the batches of the groups.
func byStack(all []*Observation) (groups [][]*Observation, batches []store.Batch) {
	seed, index := maphash.MakeSeed(), make(map[uint64]int)
	for _, one := range all {
		stack := one.stack()
		hash := stack.Hash(seed)
		i, known := index[hash]
		if !known || !batches[i].Stack.Alike(&stack) { // not if the policies have changed
			i = len(groups)
			index[hash], groups, batches = i, append(groups, nil), append(batches, store.Batch{Stack: stack})
		}
		b := &batches[i]
		groups[i], b.Calls, b.Grants = append(groups[i], one), append(b.Calls, one.Call), append(b.Grants, one.grant)
	}
	return groups, batches
}

// ask requests predictions for calls.
func (o *Observer) ask(ctx context.Context, all []*Observation) {
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	groups, batches := byStack(all)
	errs := make([]error, len(batches))
	if o.Member != nil {
		o.Member.ReserveEach(ctx, batches, errs)
	} else {
		for i := range batches {
			b := &batches[i]
			errs[i] = o.Store.Reserve(ctx, b.Stack, b.Calls, b.Grants)
		}
	}
	var lost, back, again []*Observation
	for i, group := range groups {
		if errs[i] != nil {
			lost = append(lost, group...)
			continue
		}
		for j, one := range group {
			switch g := &batches[i].Grants[j]; {
			case g.Deferred:
				again = append(again, one)
			case o.answered(ctx, one, g):
				back = append(back, one)
			}
		}
	}
	o.lose(lost)
	o.requests.Add(again...)
	telemetry.Guard("a store", func() { o.giveBack(ctx, back) })
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
	o.pending--
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
