package binding

import (
	"github.com/headway-go/headway/pacer/internal/costs"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A Cost is what a call is said to cost a policy, in place of what it costs all others.
type Cost struct {
	N        int64
	Estimate bool             // it is settled later: it may be more than the limit ever admits
	Learned  policies.Learned // how an estimate is improved; zero if it is not
}

// An Excess is a cost that a limit never admits.
type Excess struct {
	Limit *store.Limit
	Cost  int64
}

// Settling is what the settlement of a call has to know, besides its charges. A nil one is of a call that is not settled.
type Settling struct {
	Free    []store.Limit // that the call cost nothing at first
	Lessons []costs.Lesson
}

// isFree notes a limit that the call costs nothing at first.
func (s *Settling) isFree(l *store.Limit) {
	if s != nil && (l.Spec.Algorithm == policies.GCRA || l.Spec.Algorithm == policies.Window) { // nothing else is settled
		s.Free = append(s.Free, *l)
	}
}

// learns notes what is to be learned from what the call costs a policy.
func (s *Settling) learns(own Cost, l *store.Limit) {
	if s != nil && own.Learned.Times > 0 {
		s.Lessons = append(s.Lessons, costs.Lesson{Key: l.Key(), How: own.Learned})
	}
}

// Costs returns what a call costs each of its limits; nil if it is the same for all. A limit that the call costs nothing does not bind it.
// A cost that a limit never admits is an excess. own returns what the call is said to cost a policy, if that differs from cost; nil if it
// does for none. What the settlement has to know goes to s; nil if there will be none.
func (s *Set) Costs(limits []store.Limit, cost int64, own func(policy string) (Cost, bool), learner *costs.Learner, settling *Settling) ([]store.Limit, []int64, *Excess) {
	var all []int64
	if own != nil {
		limits, all = s.ownCosts(limits, cost, own, learner, settling)
	}
	for i := range limits {
		n := cost
		if all != nil {
			n = all[i]
		}
		l := &limits[i]
		if l.Spec.Algorithm == policies.Concurrency {
			continue // a call has one permit, whatever it costs
		}
		if n > l.Spec.Limit {
			return nil, nil, &Excess{Limit: l, Cost: n}
		}
	}
	return limits, all, nil
}

// ownCosts returns the limits that a call costs something, and how much. Of a policy that is learned, a part of a lane is no policy of its
// own.
func (s *Set) ownCosts(limits []store.Limit, cost int64, own func(policy string) (Cost, bool), learner *costs.Learner, settling *Settling) ([]store.Limit, []int64) {
	bound, all := make([]store.Limit, 0, len(limits)), make([]int64, 0, len(limits))
	for i := range limits {
		policy := s.WholeOf(limits[i].Policy)
		one, isOwn := own(policy)
		if !isOwn {
			one = Cost{N: cost}
		}
		n := one.N
		if one.Learned.Times > 0 {
			n = learner.Estimate(store.Key{Policy: policy, Scope: limits[i].Scope}, n, one.Learned)
		}
		if n == 0 {
			settling.isFree(&limits[i])
			continue
		}
		if policy == limits[i].Policy {
			settling.learns(one, &limits[i])
		}
		if n > limits[i].Spec.Limit && one.Estimate {
			n = limits[i].Spec.Limit
		}
		bound, all = append(bound, limits[i]), append(all, n)
	}
	return bound, all
}
