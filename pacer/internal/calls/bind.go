package calls

import (
	"slices"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/waiters"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Bind returns the limits that bind a call, in room if there is enough.
func (r *Reader) Bind(a *Ask, room []store.Limit) ([]store.Limit, error) {
	if a.Tracked && a.Set.Tracked != nil {
		return a.Set.Tracked, nil
	}
	limits, missing := a.Set.Bind(a.Which, a.Lane, a.Scope, room)
	if missing != nil {
		return nil, r.Errors.Missing(*missing)
	}
	return limits, nil
}

// SameLimits reports whether the policies in force now bind two calls by the same limits.
func (r *Reader) SameLimits(a, b Ask) bool {
	a.Set = r.Policies.Now()
	b.Set, a.Which, b.Which = a.Set, binding.Enforced, binding.Enforced
	one, err := r.Bind(&a, nil)
	if err != nil {
		return false
	}
	other, err := r.Bind(&b, nil)
	return err == nil && slices.EqualFunc(one, other, func(k, l store.Limit) bool { return k.Key() == l.Key() })
}

// Costs returns what a call costs each of its limits; nil if it is the same for all. What the settlement has to know goes to s; nil if there
// will be none.
func (r *Reader) Costs(a *Ask, limits []store.Limit, s *binding.Settling) ([]store.Limit, []int64, error) {
	limits, costs, excess, err := r.costs(a, limits, s)
	if excess != nil {
		err = r.Errors.Excess(*excess, a.MaxWait)
	}
	return limits, costs, err
}

// costs is Costs for those who go on after an excess.
func (r *Reader) costs(a *Ask, limits []store.Limit, s *binding.Settling) ([]store.Limit, []int64, *binding.Excess, error) {
	var own func(policy string) (binding.Cost, bool)
	if a.ByPolicy {
		if err := r.checkCosts(a.Set, a.Options); err != nil {
			return nil, nil, nil, err
		}
		own = a.ownCost
	}
	limits, costs, excess := a.Set.Costs(limits, a.Cost, own, &r.Learner, s)
	return limits, costs, excess, nil
}

// Request returns what a call requests of the store by the limits that bind it, which are in room if there is enough. What its settlement
// has to know goes to s; nil if there will be none. How long it waits is for the caller to add.
func (r *Reader) Request(a *Ask, room []store.Limit, s *binding.Settling) (q waiters.Request, err error) {
	if a.pooled != nil {
		q, err = r.RequestAny(a)
	} else if q.Limits, err = r.Bind(a, room); err == nil {
		q.Limits, q.Call.Costs, err = r.Costs(a, a.share(q.Limits), s)
	}
	if err == nil && a.pooled == nil {
		err = r.checkNested(a, q.Limits)
	}
	if err != nil {
		return q, err
	}
	q.Call.Cost, q.Tracked = a.Cost, a.Tracked && r.Counts
	return q, r.queueUp(a, &q)
}

// RequestMany is [Reader.Request] for several calls at once, which nobody waits for.
func (r *Reader) RequestMany(a *Ask) (q waiters.Request, err error) {
	if q.Limits, err = r.Bind(a, nil); err != nil {
		return q, err
	}
	if q.Limits, q.Call.Costs, err = r.Costs(a, a.share(q.Limits), nil); err != nil {
		return q, err
	}
	q.Call.Cost = a.Cost
	return q, r.queueUp(a, &q)
}

// queueUp gives a call what it needs to be queued in the store, if one of its limits has a queue there.
func (r *Reader) queueUp(a *Ask, q *waiters.Request) error {
	if !a.Set.HasQueues {
		return nil
	}
	fair := ""
	for i := range q.Limits {
		l := &q.Limits[i]
		q.HasQueue = q.HasQueue || l.Spec.HasQueue()
		if l.Spec.Queue == policies.FairQueue {
			fair = l.Policy
		}
	}
	if !q.HasQueue {
		return nil
	}
	q.Call.Weight = a.weight
	if fair != "" && a.Set.FairBy == binding.ProcessScope {
		q.Call.Flow = r.Flow
	} else if fair != "" {
		who := a.Scope(a.Set.FairBy)
		if who == "" {
			return r.Errors.Missing(binding.Missing{Policy: fair, Scope: a.Set.FairBy})
		}
		q.Call.Flow = binding.FlowOf(who)
	}
	return nil
}

// AtOnce charges a call that need not wait, and reports whether it did. It is a fast path for the most common request to a store in
// memory: see [store.Direct]. A pause that this process received is in the store already.
func (r *Reader) AtOnce(a *Ask) bool {
	if r.Direct == nil || a.Set.Observes || a.Set.Free || a.Set.HasQueues || a.Set.Varies || a.ByPolicy || a.NotBefore > 0 {
		return false
	}
	call := store.Admission{Cost: a.Cost}
	for i := range a.Set.All {
		l := &a.Set.All[i]
		scope, missing := l.ScopeOf(a.Scope)
		if missing != "" && l.Optional {
			continue
		}
		if missing != "" || a.Cost > l.Spec.Limit || call.Len == store.MaxAdmission {
			return false
		}
		call.Limits[call.Len] = store.Bound{Limit: l.Prepared, Scope: scope}
		call.Len++
	}
	return call.Len > 0 && r.Direct.Admit(call)
}
