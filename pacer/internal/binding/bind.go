package binding

import (
	"slices"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Which selects limits of a Set.
type Which uint8

// Kinds of limits.
const (
	All       Which = iota
	Enforced        // those that are not observed
	Predicted       // observed limits that the store predicts
)

// has reports whether a limit is of the kind. The store predicts no lane's part of a rate, since observed calls go as if they were in no
// lane, and no calls in flight, which this process counts itself.
func (w Which) has(l *Limit) bool {
	switch a := l.Spec.Algorithm; w {
	case Enforced:
		return !l.Observed
	case Predicted:
		return l.Observed && (a == specs.Allowance || (l.Whole == "" || l.Spec.Floor > 0) && (a == specs.GCRA || a == specs.Window))
	case All:
	}
	return true
}

// Bind returns the limits that bind a call, in room if there is enough.
func (r *Reader) Bind(a *Ask, room []store.Limit) ([]store.Limit, error) {
	switch s := a.Set; {
	case a.Tracked && s.Tracked != nil:
		return s.Tracked, nil
	case s.fixed != nil:
		return s.fixed, nil
	case cap(room) < len(s.All):
		room = make([]store.Limit, 0, len(s.All))
	}
	for i := range a.Set.All {
		l := &a.Set.All[i]
		if l.Lane != "" && l.Lane != a.Lane && l.Spec.Floor == 0 || !a.Which.has(l) {
			continue
		}
		scope, missing := a.scopeOf(l)
		if missing == "" {
			room = a.add(room, l, scope)
		} else if !l.Optional {
			return nil, r.Errors.Missing(l.Policy, missing)
		}
	}
	return room, nil
}

// Bindable returns the limits whose scopes a call carries, optional or not. Limits of a lane are included only for calls of that lane;
// those of all lanes, if lanes is set and the call is in none.
func (a *Ask) Bindable(lanes bool) []store.Limit {
	limits := make([]store.Limit, 0, len(a.Set.All))
	for i := range a.Set.All {
		l := &a.Set.All[i]
		if l.Lane != "" && l.Lane != a.Lane && (!lanes || a.Lane != "") {
			continue
		}
		if scope, missing := a.scopeOf(l); missing == "" {
			limits = a.add(limits, l, scope)
		}
	}
	return limits
}

// add adds a limit as it binds a call.
func (a *Ask) add(limits []store.Limit, l *Limit, scope string) []store.Limit {
	limits = append(limits, l.Limit)
	bound := &limits[len(limits)-1]
	bound.Scope, bound.Spec = scope, a.SpecOf(l, scope)
	return limits
}

// scopeOf returns the value of a limit's scopes for the call, or the name of the scope that keeps the limit from binding it.
func (a *Ask) scopeOf(l *Limit) (value, missing string) {
	if l.without != "" && a.Scope(l.without) != "" {
		return "", l.without
	}
	return a.ScopeOf(l.Scopes)
}

// ScopeOf returns the value of some scopes for the call, or the name of the first that it lacks.
func (a *Ask) ScopeOf(scopes []string) (value, missing string) {
	var few [4]string
	values := few[:0]
	for _, name := range scopes {
		v := a.Scope(name)
		if v == "" {
			return "", name
		}
		values = append(values, v)
	}
	switch len(values) {
	case 0:
		return "", ""
	case 1:
		return store.EscapeScope(values[0]), "" // one argument does not escape to the heap
	}
	return store.EscapeScope(values...), ""
}

// SameLimits reports whether the present policies bind two calls by the same limits.
func (r *Reader) SameLimits(a, b Ask) bool {
	a.Set = r.Policies.Now()
	b.Set, a.Which, b.Which = a.Set, Enforced, Enforced
	one, err := r.Bind(&a, nil)
	if err != nil {
		return false
	}
	other, err := r.Bind(&b, nil)
	return err == nil && slices.EqualFunc(one, other, func(k, l store.Limit) bool { return k.Key() == l.Key() })
}

// AtOnce charges a call that need not wait, and reports whether it did. It is a fast path for the most common request to a store in memory:
// see [store.Direct]. The store already has every pause that this process received.
func (r *Reader) AtOnce(a *Ask) bool {
	if !r.hasShortWay(a) {
		return false
	}
	call := store.Admission{Cost: a.Cost}
	for i := range a.Set.All {
		l := &a.Set.All[i]
		scope, missing := a.scopeOf(l)
		if missing != "" && l.Optional || l.Lane != "" && l.Lane != a.Lane && l.Spec.Floor == 0 {
			continue
		}
		if l.Spec.Floor > 0 && l.Lane != a.Lane {
			call.Kept |= 1 << call.Len
		}
		if missing != "" || a.Cost > l.Spec.Limit || call.Len == store.MaxAdmission {
			return false
		}
		call.Limits[call.Len] = store.Bound{Limit: l.Prepared, Scope: scope}
		call.Len++
	}
	return call.Len > 0 && r.Direct.Admit(call)
}

// hasShortWay reports whether AtOnce may charge a call.
func (r *Reader) hasShortWay(a *Ask) bool {
	s := a.Set
	if r.Direct == nil || s.Observes || s.Free || s.HasPermits || s.Varies || a.ByPolicy || a.NotBefore > 0 {
		return false
	}
	by := s.tenantScope()
	return by == "" || a.Scope(by) != "" // otherwise it is an error
}

// AllowancesOf returns the allowances of some limits, and those that belong to no policy.
func (s *Set) AllowancesOf(limits []store.Limit) (all []store.Limit) {
	for _, l := range s.All[len(s.Limits):] {
		if l.Whole == "" && len(l.Scopes) == 0 {
			all = append(all, l.Limit)
		}
		for j := range limits {
			if of := &limits[j]; of.Policy == l.Whole {
				all = append(all, readings.AllowanceOf(*of))
			}
		}
	}
	return all
}
