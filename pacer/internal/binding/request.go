package binding

import (
	"slices"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Request returns a call's request to the store, with its limits in room if there is enough. It writes what a settlement needs to s, unless
// s is nil. The caller adds the wait.
func (r *Reader) Request(a *Ask, room []store.Limit, s *Settling) (q dispatch.Request, err error) {
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
	q.Call.Cost, q.Call.Caller, q.Tracked = a.Cost, a.Caller, a.Tracked && r.Counts
	return q, r.queueUp(a, &q)
}

// queueUp prepares a call for the queue of the store, if one of its limits has one.
func (r *Reader) queueUp(a *Ask, q *dispatch.Request) error {
	if !a.Set.HasQueues && len(a.Set.Lanes) == 0 {
		return nil
	}
	fair := ""
	q.Call.Kept = a.Kept(q.Limits)
	for i := range q.Limits {
		l := &q.Limits[i]
		q.HasQueue = q.HasQueue || l.Spec.HasQueue()
		if l.Spec.Queue == specs.FairQueue {
			fair = l.Policy
		}
	}
	if !q.HasQueue {
		return nil
	}
	q.Call.Weight = a.weight
	switch {
	case fair == "":
	case a.Set.FairBy == ProcessScope:
		q.Call.Flow = r.Flow
	case a.Set.FairBy == LaneScope: // calls of a party that the rate does not name are in none
		of, party := a.Set.Named(fair).Of, a.Lane
		if !slices.Contains(of.Lanes(), party) {
			party = ""
		}
		q.Call.Weight = of.Weight(party)
		q.Call.Flow = FlowOf(party)
	default:
		who := a.Scope(a.Set.FairBy)
		if who == "" {
			return r.Errors.Missing(fair, a.Set.FairBy)
		}
		q.Call.Flow = FlowOf(who)
	}
	return nil
}

// Kept returns which limits are parts kept for other parties than the call's: see [store.Call].
func (a *Ask) Kept(limits []store.Limit) (kept uint64) {
	for i := range limits {
		if a.leaves(&limits[i]) {
			kept |= 1 << i
		}
	}
	return kept
}

// leaves reports whether a limit is a part kept for another party than the call's.
func (a *Ask) leaves(l *store.Limit) bool {
	return l.Spec.Floor > 0 && a.Set.Named(l.Policy).Lane != a.Lane
}
