package binding

import (
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
)

// Carried returns the value that a call carries for a scope; "" if none.
type Carried func(scope string) string

// Which says which limits of a Set are meant.
type Which uint8

// Kinds of limits.
const (
	All       Which = iota
	Enforced        // those that are not observed
	Predicted       // those that are observed and that the store is asked for
)

// Missing is a scope that a call lacks.
type Missing struct {
	Policy string // that needs it
	Scope  string // its name
}

// Bind returns those limits of a kind that bind a call in a lane, in room if there is enough, or which scope the call lacks.
func (s *Set) Bind(which Which, lane string, carried Carried, room []store.Limit) ([]store.Limit, *Missing) {
	if s.fixed != nil {
		return s.fixed, nil
	}
	limits := room
	if cap(room) < len(s.All) {
		limits = make([]store.Limit, 0, len(s.All))
	}
	for i := range s.All {
		l := &s.All[i]
		if l.Lane != "" && l.Lane != lane || which == Enforced && l.Observed || which == Predicted && !l.isPredicted() {
			continue
		}
		scope, missing := l.ScopeOf(carried)
		if missing == "" {
			bound := l.Limit
			bound.Scope, bound.Spec = scope, s.SpecOf(l, carried, scope)
			limits = append(limits, bound)
		} else if !l.Optional {
			return nil, &Missing{Policy: l.Policy, Scope: missing}
		}
	}
	return limits, nil
}

// Bindable returns the limits whose scopes a call in a lane carries, whether they are optional or not. Limits of a lane are
// included only for calls of that lane; those of all lanes, if lanes is set and the call is in none.
func (s *Set) Bindable(lane string, lanes bool, carried Carried) []store.Limit {
	limits := make([]store.Limit, 0, len(s.All))
	for i := range s.All {
		l := &s.All[i]
		if l.Lane != "" && l.Lane != lane && (!lanes || lane != "") {
			continue
		}
		if scope, missing := l.ScopeOf(carried); missing == "" {
			bound := l.Limit
			bound.Scope, bound.Spec = scope, s.SpecOf(l, carried, scope)
			limits = append(limits, bound)
		}
	}
	return limits
}

// AllowancesOf returns the allowances of some limits that bind calls, and those that no policy is about.
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

// ScopeOf returns the value of the limit's scopes for a call, or the name of the first that the call lacks.
func (l *Limit) ScopeOf(carried Carried) (value, missing string) {
	if l.without != "" && carried(l.without) != "" {
		return "", l.without
	}
	return ScopeOf(l.Scopes, carried)
}

// ScopeOf returns the value of some scopes for a call, or the name of the first that the call lacks.
func ScopeOf(scopes []string, carried Carried) (value, missing string) {
	switch len(scopes) {
	case 0:
		return "", ""
	case 1:
		v := carried(scopes[0])
		if v == "" {
			return "", scopes[0]
		}
		return store.EscapeScope(v), ""
	}
	var few [4]string
	values := few[:0]
	for _, name := range scopes {
		v := carried(name)
		if v == "" {
			return "", name
		}
		values = append(values, v)
	}
	return store.EscapeScope(values...), ""
}
