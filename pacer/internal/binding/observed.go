package binding

import (
	"slices"

	"github.com/headway-go/headway/policies"
)

// WillEnforce reports whether some policies of the set are observed that are not when others are in force.
func (s *Set) WillEnforce(list []policies.Policy, allObserved bool) bool {
	if !s.Observes || allObserved {
		return false
	}
	return slices.ContainsFunc(s.Limits, func(l Limit) bool {
		return l.Observed && l.Whole == "" &&
			!slices.ContainsFunc(list, func(one policies.Policy) bool { return one.Name() == l.Policy && one.IsObserved() })
	})
}

// observed returns policies, all of which are observed.
func observed(list []policies.Policy) []policies.Policy {
	all := slices.Clone(list)
	for i := range all {
		all[i] = all[i].Observed()
	}
	return all
}

// observedIf returns a policy that is observed, or is not.
func observedIf(p policies.Policy, observed bool) policies.Policy {
	if observed {
		return p.Observed()
	}
	return p.Enforced()
}

// isPredicted reports whether the store is asked for what an observed limit would have done. A lane's part of a policy is not: calls go as
// if they were in no lane. Calls in flight are counted in this process.
func (l *Limit) isPredicted() bool {
	a := l.Spec.Algorithm
	return l.Observed && (a == policies.Allowance || l.Whole == "" && (a == policies.GCRA || a == policies.Window))
}
