package pacer

import (
	"slices"

	"github.com/headway-go/headway/policies"
)

// A Mode is whether a [Pacer] enforces its policies.
type Mode uint8

const (
	// Enforce holds and refuses calls as the policies say, but for those that are policies.Policy.Observed.
	Enforce Mode = iota
	// Observe lets every call go at once, and refuses none: neither for a limit, nor for want of a scope, nor because of a pause. Only
	// [NotBefore], which is the caller's own wish, still holds a call. Every policy is as if it were policies.Policy.Observed: what calls
	// cost is charged as if they had waited, in the background if the store is not in memory, and [Hooks].Observed receives how long each
	// of them would have waited, and for what. A Pacer of which all policies are observed behaves so, too.
	//
	// What is predicted are rates and windows, in the order in which calls come: lanes and fair shares, which let some calls overtake
	// others, are not. Of calls in flight, this process counts its own: a call is reported that would have been queued, and not for how
	// long. Docs/observe.md has more.
	Observe
)

// String returns the mode's name.
func (m Mode) String() string {
	switch m {
	case Enforce:
		return "enforce"
	case Observe:
		return "observe"
	}
	return "unknown"
}

// Mode returns whether the policies are enforced.
func (p *Pacer) Mode() Mode { return p.set().mode }

// SetMode sets whether this process enforces its policies, in place of [Config].Mode. It holds at once. What was charged while the policies
// were observed counts, except slots that were still to come: the calls that they were for have gone, so they are given back, which SetMode
// waits for, for at most five seconds. Calls that wait when the mode becomes [Observe] go, except behind a pause of the whole upstream, which
// they wait for.
//
// It returns a [*ConfigError] for a mode that does not exist, and [ErrClosed].
func (p *Pacer) SetMode(m Mode) error {
	if m > Observe {
		return badNumber("Mode", int64(m), "must be Enforce or Observe")
	}
	p.beforeEnforcing(p.set().given, m)
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.isClosed() {
		return ErrClosed
	}
	p.mode = m
	p.settle()
	return nil
}

// beforeEnforcing gives back what is charged for slots to come of policies that are about to be enforced, so that no call has to wait
// behind calls that have gone. What is charged meanwhile is given back when they are enforced.
func (p *Pacer) beforeEnforcing(list []policies.Policy, m Mode) {
	if p.set().willEnforce(list, m) && !p.isClosed() {
		p.observer.giveBackAll()
	}
}

// willEnforce reports whether some policies of the set are observed that are not when other policies hold, in a mode.
func (s *policySet) willEnforce(list []policies.Policy, m Mode) bool {
	if !s.observes || m == Observe {
		return false
	}
	return slices.ContainsFunc(s.limits, func(l limit) bool {
		return l.observed && l.whole == "" &&
			!slices.ContainsFunc(list, func(one policies.Policy) bool { return one.Name() == l.Policy && one.IsObserved() })
	})
}

// inMode returns policies as they are in a mode.
func inMode(list []policies.Policy, m Mode) []policies.Policy {
	if m != Observe {
		return list
	}
	observed := slices.Clone(list)
	for i := range observed {
		observed[i] = observed[i].Observed()
	}
	return observed
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
func (l *limit) isPredicted() bool {
	return l.observed && l.whole == "" && l.Spec.Algorithm != policies.Concurrency
}
