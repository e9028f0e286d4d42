package readings

import (
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// Rules are the facts about an upstream's policies. They do not change.
type Rules struct {
	policies map[string]policy
	maxPause time.Duration
	counts   bool
	bound    []string // the names of the allowances that bind calls

	// Own returns the policy of a limit, if some keys have numbers of their own; nil if none has.
	Own func(*store.Limit) policies.Policy
}

// A policy, with its scopes at hand.
type policy struct {
	policies.Policy

	scopes []string
}

// NewRules returns the rules for some policies, which have different names. No pause is longer than maxPause. Limits, and what is left of
// them, become notes only if counts is set. Bound are the names of the allowances that bind calls.
func NewRules(all []policies.Policy, maxPause time.Duration, counts bool, bound ...string) *Rules {
	r := &Rules{policies: make(map[string]policy, len(all)), maxPause: maxPause, counts: counts, bound: bound}
	for _, one := range all {
		r.policies[one.Name()] = policy{one, one.Scopes()}
	}
	return r
}

// policyOf returns the policy of a limit, as it holds for its key.
func (r *Rules) policyOf(l *store.Limit) policies.Policy {
	if r.Own != nil {
		return r.Own(l)
	}
	return r.policies[l.Policy].Policy
}

// A Carrier knows the values of all scopes that a call carries, by the names of those that policies can have. Few answers need them.
type Carrier interface{ Carried() map[string]string }

// An Answer is what is known of the call that was answered.
type Answer struct {
	Limits  []store.Limit // that bound it, each of a policy of the Rules
	Partial bool          // the call lacks a scope: Limits are those whose scopes it has

	// Of a call with a known time of admission; nil otherwise. It does not change any more.
	Grant *store.Grant
	Again bool          // the call was answered before: this is more of the same answer
	Took  time.Duration // how long after its slot it was answered
	Cost  int64         // of the call

	Scopes Carrier // of the call; nil if that is not known

	Flying int64 // the cost of calls of this process that are not answered, and whose answers will be reported

	Blind int64 // the known cost of a call that was answered; 0 if there was none
}

// carried returns the values of the call's scopes; nil if they are not known.
func (a *Answer) carried() map[string]string {
	if a.Scopes == nil {
		return nil
	}
	return a.Scopes.Carried()
}

// An UnboundError means that feedback names a policy that does not bind the call.
type UnboundError struct {
	Policy string
	Scope  string // the first scope that the policy needs; "" if it has none, or there is no such policy
}

// Error implements error.
func (e *UnboundError) Error() string {
	return fmt.Sprintf("feedback on policy %q, which does not bind the call", e.Policy)
}

// targets are the limits of an answer that a feedback is about, by index.
type targets struct {
	limits []int
	all    bool   // the whole upstream: calls of other limits, too
	named  bool   // by name, and not found by looking for what fits
	within string // only limits that are per this scope; "" for all
}

// targets returns the limits that a feedback is about: those of the policies that it names, or else of the widest scope that binds the
// call, within its bound.
func (r *Rules) targets(a *Answer, f *policies.Feedback) (targets, error) {
	if len(f.Policies) == 0 {
		return r.widest(a, f.Within), nil
	}
	t := targets{named: true}
	for _, name := range f.Policies {
		found := false
		for i := range a.Limits {
			if a.Limits[i].Policy == name {
				t.limits, found = append(t.limits, i), true
			}
		}
		if !found && f.Otherwise == policies.Nobody {
			return t, r.unbound(name)
		}
	}
	switch {
	case len(t.limits) > 0:
	case f.Otherwise == policies.Everyone:
		return r.widest(a, ""), nil
	case f.Otherwise == policies.Unknown:
		return r.widest(a, f.Within), nil
	}
	return t, nil
}

func (r *Rules) unbound(name string) *UnboundError {
	e := &UnboundError{Policy: name}
	if p := r.policies[name]; len(p.scopes) > 0 {
		e.Scope = p.scopes[0]
	}
	return e
}

// widest returns the limits with the fewest scopes, of those that are per a scope if there are any; all if that is the whole upstream.
func (r *Rules) widest(a *Answer, within string) targets {
	t, fewest := targets{}, -1
	for i := range a.Limits {
		if within != "" && r.isPer(&a.Limits[i], within) {
			t.within = within
		}
	}
	for i := range a.Limits {
		if a.Limits[i].Spec.Algorithm == specs.Allowance || !r.isPer(&a.Limits[i], t.within) {
			continue
		}
		n := len(r.policies[a.Limits[i].Policy].scopes)
		if fewest < 0 || n < fewest {
			fewest, t.limits = n, nil
		}
		if n == fewest {
			t.limits = append(t.limits, i)
		}
	}
	t.all = fewest <= 0 || a.Partial && t.within == ""
	return t
}

// isPer reports whether a limit is per a scope; "" is that of every limit.
func (r *Rules) isPer(l *store.Limit, scope string) bool {
	return scope == "" || slices.Contains(r.policies[l.Policy].scopes, scope)
}

// fitting returns which limits the counts of a feedback are about that names none: the one whose number or period it has, the number before
// the period, and of those that fit alike the one with the most scopes.
func (r *Rules) fitting(a *Answer, f *policies.Feedback, t targets) []int {
	limit, limited := f.Limit.Value()
	best, rank := -1, 0
	for i := range a.Limits {
		l := &a.Limits[i]
		if !r.isPer(l, t.within) || l.Spec.Algorithm != specs.GCRA && l.Spec.Algorithm != specs.Window {
			continue
		}
		most, period := r.policyOf(l).Limit()
		number, window := limited && most == limit, f.Window > 0 && period == f.Window
		if !number && !window || number && f.Window > 0 && !window {
			continue
		}
		n := 1 + len(r.policies[l.Policy].scopes)
		if number {
			n += 100
		}
		if n > rank {
			best, rank = i, n
		}
	}
	if best < 0 {
		return nil
	}
	return []int{best}
}
