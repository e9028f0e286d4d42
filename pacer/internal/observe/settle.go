package observe

import (
	"context"
	"slices"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

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
		if n := one.actual.CostOf(one.Limits[i].Policy); n >= 0 && n != cost && !one.Call.Keeps(i) {
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
