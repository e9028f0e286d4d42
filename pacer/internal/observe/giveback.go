package observe

import (
	"context"

	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

// Cancel gives back the slots and permits of a call that does not go; of one that has gone, only the permits.
func (one *Observation) Cancel(ctx context.Context, gone bool) {
	if one == nil {
		return
	}
	o := one.of
	o.mu.Lock()
	one.leave()
	before := one.state
	if !gone && before != isRefused {
		one.state = isOver
	}
	o.mu.Unlock()
	if !gone && (before == isVirtual || before == isPast) {
		o.inBackground(func() { o.giveBack(ctx, []*Observation{one}) })
	}
}

// inBackground runs a function that calls the store: at once, if that takes no time.
func (o *Observer) inBackground(do func()) {
	if o.Direct {
		do()
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.busy.Go(func() { telemetry.Guard("a store", do) })
}

// giveBack gives slots back. Slots that cannot be given back are lost.
func (o *Observer) giveBack(ctx context.Context, all []*Observation) {
	if len(all) == 0 {
		return
	}
	_, batches := byStack(all)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Timeout)
	defer cancel()
	if m := o.Member; m != nil {
		_ = m.CancelAll(ctx, batches)
		return
	}
	for i := range batches {
		_ = o.Store.Cancel(ctx, batches[i].Stack, batches[i].Grants)
	}
}

// takeAll empties the virtual queue, and so frees its pending calls.
func (o *Observer) takeAll() (all []*Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.epoch++
	for _, one := range o.virtual {
		if one.state == isVirtual {
			one.state = isOver
			all = append(all, one)
		}
	}
	o.virtual = nil
	return all
}

// GiveBackAll gives all future slots back, and waits for that.
func (o *Observer) GiveBackAll() { o.giveBack(o.life, o.takeAll()) }

// Retire gives all future slots back, because the policies are enforced from now on, and then has waiting calls look for earlier slots. If
// the store is not in memory, it does not wait for that.
func (o *Observer) Retire() {
	all := o.takeAll()
	if len(all) == 0 {
		return
	}
	o.inBackground(func() {
		o.giveBack(o.life, all)
		o.Calls.Dispatcher.Changed(o.life, []store.Change{{Kind: store.Slowed}}) // of everyone: slots must be requested anew
	})
}

// Close gives future slots back, and waits for requests under way. Pending calls are dropped.
func (o *Observer) Close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.GiveBackAll()
	o.requests.Wait()
	o.busy.Wait()
}

// Enter counts a running call, for a policy of calls in flight, and returns their number.
func (one *Observation) Enter(key store.Key) int64 {
	o := one.of
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running == nil {
		o.running = make(map[store.Key]int64)
	}
	o.running[key]++
	one.permits = append(one.permits, key)
	return o.running[key]
}

// Release counts a call as over.
func (one *Observation) Release() {
	if one == nil {
		return
	}
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	one.leave()
}

// leave is Release for a caller who holds mu.
func (one *Observation) leave() {
	for _, key := range one.permits {
		if one.of.running[key]--; one.of.running[key] <= 0 {
			delete(one.of.running, key)
		}
	}
	one.permits = nil
}
