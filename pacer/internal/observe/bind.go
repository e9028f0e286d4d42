package observe

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Observe predicts, n times, what the observed policies would have done to a call that goes after a delay.
func (o *Observer) Observe(ctx context.Context, a *binding.Ask, delay time.Duration, n int64) *Observation {
	b := *a
	b.Which = binding.Predicted
	one := o.New(ctx, delay)
	err := b.Wrong
	if err == nil {
		err = one.countPermits(ctx, &b)
	}
	if err == nil {
		err = one.bind(ctx, &b, n)
	}
	if err != nil {
		one.state = isRefused
		o.Events.WouldRefuse(ctx, err)
		return one
	}
	one.Ask(ctx)
	return one
}

// bind finds the observed policies that bind a call, and its costs.
func (one *Observation) bind(ctx context.Context, a *binding.Ask, n int64) error {
	r := one.of.Calls
	limits, err := r.Bind(a, nil)
	if err != nil {
		return err
	}
	var s binding.Settling
	limits, costs, err := r.Costs(a, limits, &s)
	if err != nil {
		return err
	}
	for i := range limits {
		l := &limits[i]
		if l.Spec.Queue == specs.FairQueue && a.Set.FairBy != binding.LaneScope && a.Scope(a.Set.FairBy) == "" {
			return r.Errors.Missing(l.Policy, a.Set.FairBy)
		}
		l.Spec.Queue = specs.NoQueue
	}
	one.set, one.Limits, one.Free, one.Learns = a.Set, limits, s.Free, s.Lessons
	one.Call = store.Call{Cost: a.Cost, Costs: costs, Kept: a.Kept(limits), NotBefore: one.Delay, MaxWait: min(a.MaxWait, MaxWait)}
	if deadline, ok := ctx.Deadline(); ok {
		if left := max(0, time.Until(deadline)); left < one.Call.MaxWait {
			one.Call.MaxWait, one.Ends = left, true
		}
	}
	if n > 1 {
		one.Call.Costs = times(n, limits, a.Cost, costs)
	}
	return nil
}

// times returns the cost of n calls for each limit, at most what the limit ever admits.
func times(n int64, limits []store.Limit, cost int64, costs []int64) []int64 {
	all := make([]int64, len(limits))
	for i := range limits {
		if costs != nil {
			cost = costs[i]
		}
		most := limits[i].Spec.Limit
		all[i] = min(most, cost*min(n, most))
	}
	return all
}

// countPermits counts a call for each observed policy of calls in flight, and reports which permits would have been taken.
func (one *Observation) countPermits(ctx context.Context, a *binding.Ask) error {
	r := one.of.Calls
	for i := range a.Set.Limits {
		l := &a.Set.Limits[i]
		if !l.Observed || l.Spec.Algorithm != specs.Concurrency || l.Spec.After > 0 {
			continue
		}
		if option := a.CostOption(l.Policy); option != nil && option.N == 0 {
			continue
		}
		scope, missing := a.ScopeOf(l.Scopes)
		switch {
		case missing != "" && l.Optional:
			continue
		case missing != "":
			return r.Errors.Missing(l.Policy, missing)
		}
		key, spec := store.Key{Policy: l.Policy, Scope: scope}, a.SpecOf(l, scope)
		if n := one.Enter(key); n > spec.Limit {
			one.of.Events.WouldQueue(ctx, l.Policy, binding.Describe(l.Scopes, scope), n)
		}
		if !a.Permits {
			time.AfterFunc(time.Duration(spec.Interval)*time.Microsecond, one.Release)
		}
	}
	return nil
}
