package pacer

import (
	"context"
	"slices"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Settle sets what the call really cost, by [Cost] and [CostOf], when that is known only afterwards: tokens, points.
// If the call was charged too much, Settle gives the difference back. If it was charged too little, Settle charges
// the difference, even beyond the limits, and later calls wait for it. A policy that is not mentioned keeps its
// charge. One that the call cost nothing at first is charged now, if a CostOf names it. Settle a reservation once, after Wait: it
// returns [ErrSettled] if it was settled before, and [ErrSpent] if it was cancelled. It returns a [*ConfigError] for a cost that is
// negative or above policies.MaxLimit and for an unknown policy, and a [*StoreError] if the store fails.
func (r *Reservation) Settle(ctx context.Context, costs ...Option) error {
	p := r.pacer
	set, known := r.bound()
	a := ask{opts: costs, set: set}
	all := int64(-1)
	for i := range costs {
		o := &costs[i]
		if o.kind != optCost && o.kind != optCostOf {
			return &ConfigError{Field: "Settle", Value: "an option", Reason: "is neither a Cost nor a CostOf"}
		}
		if o.n < 0 || o.n > policies.MaxLimit {
			return badNumber("Settle", o.n, "must be from 0 to policies.MaxLimit")
		}
		if o.kind == optCost {
			all = o.n
		}
	}
	if err := p.checkCosts(&a); err != nil {
		return err
	}
	var free []store.Limit
	for _, l := range known.Free {
		if a.costOption(set.WholeOf(l.Policy)) != nil {
			free = append(free, l)
		}
	}
	stack, notes, err := r.call.Settle(ctx, free, func(policy string) int64 {
		return a.costOf(set.WholeOf(policy), all) // a part of a lane costs what the whole does
	})
	if err != nil {
		return err
	}
	o := r.observed.Load()
	if o != nil { // which looks at the costs later
		a.opts = slices.Clone(a.opts)
	}
	for _, l := range slices.Concat(known.Lessons, o.Lessons()) {
		p.learner.Learn(l.Key, a.costOf(l.Key.Policy, all), l.How)
	}
	o.Settle(ctx, func(policy string) int64 { return a.costOf(policy, all) }, func(policy string) bool { return a.costOption(policy) != nil })
	if len(notes) == 0 {
		return nil
	}
	p.settled(ctx, &stack, notes)
	if _, _, err := p.store.Report(ctx, stack, notes); err != nil {
		return p.storeError("report", err)
	}
	return nil
}
