package observe

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/telemetry"
)

// Ask predicts a call, at once or in the background. A call without limits needs no request.
func (one *Observation) Ask(ctx context.Context) {
	if len(one.Limits) == 0 {
		one.state = isPast
		return
	}
	one.of.add(ctx, one)
}

// add predicts a call, at once or in the background.
func (o *Observer) add(ctx context.Context, one *Observation) {
	o.mu.Lock()
	one.epoch = o.epoch
	o.advance(ctx, o.estimate())
	switch {
	case o.closed:
		one.state = isRefused
		o.mu.Unlock()
		return
	case len(o.pending) >= maxPending || len(o.virtual) >= maxVirtual:
		one.state = isRefused
		o.lost++
	case !o.Direct:
		o.pending = append(o.pending, one)
	default:
		o.mu.Unlock()
		o.ask(ctx, []*Observation{one})
		return
	}
	if !o.asking {
		o.asking = true
		o.busy.Go(func() { o.askAll(context.WithoutCancel(ctx)) })
	}
	o.mu.Unlock()
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
				o.lose(all)
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
						o.lose(some)
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
func (o *Observer) lose(all []*Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost += int64(len(all))
	for _, one := range all {
		one.state = isRefused
	}
}
