package observe

import (
	"context"
	"slices"

	"github.com/headway-go/headway/pacer/internal/binding"
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

// Lessons returns the lessons of the call's costs.
func (one *Observation) Lessons() []binding.Lesson {
	if one == nil {
		return nil
	}
	return one.Learns
}

// Settle corrects the charges of observed policies to actual. A limit without a charge is charged if the settlement names its policy.
func (one *Observation) Settle(ctx context.Context, actual *binding.Settlement) {
	if one == nil {
		return
	}
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	if one.actual == nil {
		one.actual = actual
		if one.state == isPast {
			one.of.settleIfKnown(ctx, one)
		}
	}
}

// settleIfKnown reports the real cost of a call whose slot has come. The caller holds mu.
func (o *Observer) settleIfKnown(ctx context.Context, one *Observation) {
	if one.actual == nil || o.closed {
		return
	}
	one.state = isOver
	stack := one.stack()
	var notes []store.Note
	for i := range one.Limits {
		cost := one.Call.CostOf(i)
		if n := one.actual.CostOf(one.Limits[i].Policy); n >= 0 && n != cost {
			o.Meter.Settle(&one.Limits[i], one.Call.Caller, one.grant.At, one.counted, n-cost)
			notes = append(notes, store.Note{
				Kind: store.NoteSettle, Limit: i, Charge: one.grant.Charges[i], Cost: cost, Actual: n, Local: one.grant.Local,
			})
		}
	}
	for i := range one.Free {
		if n := one.actual.CostOf(one.Free[i].Policy); n > 0 && one.actual.Names(one.Free[i].Policy) {
			stack.Limits = append(slices.Clip(stack.Limits), one.Free[i])
			notes = append(notes, store.Note{Kind: store.NoteSettle, Limit: len(stack.Limits) - 1, Actual: n, Local: one.grant.Local})
		}
	}
	if len(notes) == 0 || o.settling >= maxSettling {
		return
	}
	o.settling++
	o.busy.Go(func() {
		ctx, cancel := o.bounded(ctx)
		defer cancel()
		telemetry.Guard("a store", func() { _, _, _ = o.Store.Report(ctx, stack, notes) })
		o.mu.Lock()
		defer o.mu.Unlock()
		o.settling--
	})
}
