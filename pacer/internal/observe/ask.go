package observe

import (
	"container/heap"
	"context"
	"strings"

	"github.com/headway-go/headway/pacer/store"
)

// byStack groups calls by their stacks, in order.
func byStack(all []*Observation) (groups [][]*Observation) {
	index := make(map[string]int)
	for _, one := range all {
		var b strings.Builder
		for i := range one.Limits {
			b.WriteString(one.Limits[i].Policy + "\n" + one.Limits[i].Scope + "\n")
		}
		i, known := index[b.String()]
		if known {
			first := store.Stack{Limits: groups[i][0].Limits}
			known = first.Alike(&store.Stack{Limits: one.Limits}) // not if the policies have changed
		}
		if !known {
			i = len(groups)
			index[b.String()], groups = i, append(groups, nil)
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
		o.lose(all)
		if o.Direct { // no goroutine would report it
			o.mu.Lock()
			lost := o.lost
			o.lost = 0
			o.mu.Unlock()
			o.reportLost(lost)
		}
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
		heap.Push(&o.virtual, one)
	default:
		one.grant, one.state, one.counted = *g, isPast, counted
		o.settleIfKnown(ctx, one)
	}
	return false
}
