package binding

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// Named returns the limit with this name, of this set or an earlier one; nil without one.
func (s *Set) Named(name string) *Limit { return s.byName[name] }

// SpecOf returns the numbers for a key of a limit that the call carries.
func (a *Ask) SpecOf(l *Limit, scope string) specs.Spec {
	if !a.Set.Varies || scope == "" || l.Spec.Algorithm == specs.Allowance { // an allowance has the same numbers for every key
		return l.Spec
	}
	var few [4]string
	values := few[:0]
	for _, name := range l.Scopes {
		values = append(values, strings.Clone(a.Scope(name))) // a function of the user's may keep it: calls that have no overrides are not to pay for that
	}
	return l.own(strings.Clone(scope), values)
}

// specFor returns the numbers for a key of a limit, by its escaped scope and its values.
func (s *Set) specFor(l *Limit, scope string, values []string) specs.Spec {
	policy, found := s.specialOf(l, scope)
	if !found {
		whole := s.wholeLimit(l)
		if !whole.Of.HasOverrides() {
			return l.Spec
		}
		policy, _ = whole.Of.For(values...) // with an error, it is the policy itself
		policy = l.partOf(policy)
	}
	spec := policy.Spec()
	spec.Queue = l.Spec.Queue
	if !found && !spec.Equal(l.Spec) {
		k := store.Key{Policy: l.Policy, Scope: scope}
		if _, known := s.met.Swap(k, slices.Clone(values)); !known && s.owned.Add(1) > maxOwned {
			s.met.Delete(k)
			s.owned.Add(-1)
		}
	}
	return spec
}

// specialOf returns an operator's setting for a key of a limit.
func (s *Set) specialOf(l *Limit, scope string) (policies.Policy, bool) {
	policy, found := s.Special[store.Key{Policy: s.wholeLimit(l).Policy, Scope: scope}]
	if found && l.Observed {
		policy = policy.Observed()
	}
	return l.partOf(policy), found
}

// Keyed returns a policy as it holds for a key: an operator's setting, or an override if the policy is of this set.
func (s *Set) Keyed(policy policies.Policy, scope string) policies.Policy {
	l := s.byName[policy.Name()]
	if l == nil || scope == "" {
		return policy
	}
	if special, found := s.specialOf(l, scope); found {
		return special
	}
	whole := s.wholeLimit(l)
	if values, found := whole.overrides()[scope]; found && policy.String() == l.Of.String() {
		own, _ := whole.Of.For(values...) // with an error, it is the policy itself
		return l.partOf(own)
	}
	return policy
}

// overridesOf returns the values of the keys for which a policy has overrides, by scope: nothing else maps the hash of a long scope back to
// its values.
func overridesOf(p policies.Policy) map[string][]string {
	all := make(map[string][]string)
	for values := range p.Overrides() {
		all[store.EscapeScope(values...)] = values
	}
	return all
}

// wholeLimit returns the limit itself, or for a part, its whole.
func (s *Set) wholeLimit(l *Limit) *Limit {
	if l.Whole == "" {
		return l
	}
	return s.byName[l.Whole]
}

// partOf returns the limit's part of a policy.
func (l *Limit) partOf(policy policies.Policy) policies.Policy {
	if l.Lane != "" {
		if part, ok := policy.InLane(l.Lane); ok {
			return part
		}
	}
	return policy
}

// PolicyOf returns the policy of a limit, of this set or an earlier one, as it holds for its key.
func (s *Set) PolicyOf(l *store.Limit) policies.Policy {
	of := s.byName[l.Policy]
	if of == nil {
		return policies.Policy{}
	}
	if policy, found := s.specialOf(of, l.Scope); found {
		return policy
	}
	if values, ok := s.met.Load(l.Key()); ok {
		policy := s.wholeLimit(of).Of
		telemetry.Guard("a function of OverrideBy", func() { // no call waits for it here, and it has returned once
			policy, _ = policy.For(values.([]string)...) //nolint:forcetypeassert // specFor stores no other
		})
		return of.partOf(policy)
	}
	return of.Of
}

// WholeOf returns the name of a limit's policy, also if the limit is a part of it.
func (s *Set) WholeOf(name string) string {
	if l := s.byName[name]; l != nil {
		return cmp.Or(l.Whole, l.Policy)
	}
	return readings.PolicyOf(name)
}

// IsPart reports whether a limit is a lane's part of a policy, or its allowance.
func (s *Set) IsPart(name string) bool {
	l := s.byName[name]
	return l != nil && l.Whole != "" || readings.IsAllowance(name)
}
