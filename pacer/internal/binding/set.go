package binding

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// InForce is which policies hold.
type InForce struct {
	Given      []policies.Policy             // as they were given; they are valid and go together
	Source     string                        // who set them; "" for this process
	Special    map[store.Key]policies.Policy // what operators have set for keys
	Fair       []string                      // the policies that other processes share fairly
	Allowances []string                      // names of those that readings were about
}

// ProcessScope is the scope of fair shares that only other processes have: this process is one tenant. No policy can have it.
const ProcessScope = "/process"

// A Limit is a policy, or a lane's part of one, unpacked once.
type Limit struct {
	store.Limit

	Of       policies.Policy
	Scopes   []string
	Optional bool
	Observed bool   // it is not enforced
	Lane     string // it binds only calls of this lane; "" for all
	Whole    string // of a lane's part: the policy that it belongs to

	Prepared store.Prepared // if the store is direct

	without string // it binds only calls that lack this scope
	// own returns the limit of a key. It is a function so that a call's options stay on the stack: otherwise the compiler assumes that they
	// escape with the Set.
	own       func(scope string, values []string) specs.Spec
	overrides func() map[string][]string // the values of the keys that the policy has overrides for, by scope
}

// A Set is the policies of a Pacer, unpacked once. It never changes, so its fields are for reading. New policies make a new Set, and each
// call keeps the one that binds it.
type Set struct {
	InForce

	Generation int64 // of the sets of a Pacer, from 1

	List   []policies.Policy // as they bind calls together
	Bound  []policies.Policy // with the parts of lanes
	Limits []Limit           // of the policies
	All    []Limit           // those, and then allowances
	Scoped bool              // some limits have scopes

	// Tracked is, without policies, the stack of calls whose answers are reported: few of them go at a time until an answer states a limit.
	Tracked []store.Limit

	Lanes     []string // of all policies
	HasQueues bool     // some limits are granted only shortly before the slot

	HasPermits bool   // some limits count calls in flight
	FairBy     string // the scope by which shares are fair; "" if no shares are
	Observes   bool   // some limits are observed
	Free       bool   // none is enforced, and calls do not heed the upstream's pauses either: all are observed
	Varies     bool   // some keys have numbers of their own: those that operators have set, and those that the policies know

	Rules *readings.Rules

	byName map[string]*Limit // with those of earlier sets, whose calls may still be on their way
	fixed  []store.Limit     // the stack of every call, if no limit has a scope
	met    sync.Map          // the values of keys that have numbers of their own and have been met, by store.Key
	owned  atomic.Int64      // how many those are
}

// maxOwned bounds the remembered keys with numbers of their own. Other keys have the numbers of their policy where numbers are needed: for
// the share of a process without its store, and for what an upstream reports.
const maxOwned = 1 << 16

// maxRemembered bounds the remembered names of former policies.
const maxRemembered = 1000

// NewSet unpacks policies. before is the present set; nil without one.
func NewSet(c *Config, in *InForce, before *Set) *Set {
	list := policies.Stacked(in.Given)
	all := PartsOf(list)
	s := &Set{InForce: *in, List: list, Limits: make([]Limit, len(all)), byName: make(map[string]*Limit, len(all))}
	s.Generation = 1
	if before != nil {
		s.Generation = before.Generation + 1
	}
	if before != nil && len(before.byName) < maxRemembered {
		s.byName = maps.Clone(before.byName)
	}
	for i := range all {
		s.Bound = append(s.Bound, all[i].Policy)
		s.addLimit(c, i, &all[i])
	}
	s.Rules = readings.NewRules(s.Bound, c.MaxPause, c.Counts, in.Allowances...)
	s.Rules.Own = s.PolicyOf
	s.Free = s.Observes && !slices.ContainsFunc(s.Limits, func(l Limit) bool { return !l.Observed })
	s.addAllowances(c)
	if s.Scoped { // some readings may be of calls with some scopes only
		s.Tracked = nil
	}
	if !s.Scoped && !s.Observes {
		s.fixed = make([]store.Limit, 0, len(s.All))
		for i := range s.All {
			s.fixed = append(s.fixed, s.All[i].Limit)
		}
	}
	return s
}

// addAllowances adds the allowances of the present policies, and of the whole upstream. Without policies it has one from the start.
func (s *Set) addAllowances(c *Config) {
	s.All = slices.Clone(s.Limits)
	names, first := s.Allowances, readings.AllowanceOf(store.Limit{}).Policy
	bare := len(s.Limits) == 0 && c.Counts && !s.Free
	if bare && !slices.Contains(names, first) {
		names = append([]string{first}, names...)
	}
	for _, name := range names {
		l := Limit{Limit: readings.AllowanceOf(store.Limit{}), Whole: readings.PolicyOf(name)}
		l.Policy, l.Observed = name, s.Free
		if l.Whole != "" {
			i := slices.IndexFunc(s.Limits, func(of Limit) bool { return of.Policy == l.Whole })
			if i < 0 {
				continue
			}
			of := &s.Limits[i]
			l.Scopes, l.Optional, l.Observed, l.Lane = of.Scopes, of.Optional, of.Observed, of.Lane
		}
		if by := readings.ApartBy(name); by != "" {
			l.Scopes, l.Optional, s.Scoped = []string{by}, true, true
		} else if l.without = readings.ApartFrom(name, names); l.without != "" {
			l.Optional = true
		}
		if c.Direct != nil {
			l.Prepared = c.Direct.Prepare(c.Upstream, &l.Limit)
		}
		s.All = append(s.All, l)
		if bare {
			if l.Policy == first {
				l.Spec.First = readings.FirstOpen
			}
			s.Tracked = append(s.Tracked, l.Limit)
		}
	}
}

// addLimit unpacks one policy.
func (s *Set) addLimit(c *Config, i int, one *Part) {
	l := &s.Limits[i]
	l.Limit = store.Limit{Policy: one.Name(), Spec: one.Spec()}
	s.byName[l.Policy] = l
	l.Of, l.Scopes, l.Optional, l.Lane, l.Whole = one.Policy, one.Scopes(), one.IsOptional(), one.Lane, one.Whole
	l.Observed = one.IsObserved()
	l.own = func(scope string, values []string) specs.Spec { return s.specFor(l, scope, values) }
	l.overrides = sync.OnceValue(func() map[string][]string { return overridesOf(one.Policy) }) // only status needs them
	if c.Direct != nil {
		l.Prepared = c.Direct.Prepare(c.Upstream, &l.Limit)
	}
	for _, lane := range one.Lanes() {
		if !slices.Contains(s.Lanes, lane) {
			s.Lanes = append(s.Lanes, lane)
		}
	}
	s.FairBy = cmp.Or(s.FairBy, one.FairBy())
	if s.isTenant(l) {
		l.Spec.Queue, s.FairBy = specs.FairQueue, ProcessScope
	}
	s.Varies = s.Varies || one.HasOverrides() || len(s.Special) > 0
	s.Observes = s.Observes || l.Observed
	s.HasPermits = s.HasPermits || l.Spec.Algorithm == specs.Concurrency
	s.HasQueues = s.HasQueues || !l.Observed && l.Spec.HasQueue()
	s.Scoped = s.Scoped || len(l.Scopes) > 0 || len(s.Lanes) > 0 || s.FairBy != ""
}

// tenantScope returns the scope by which calls belong to tenants that share limits fairly; "" if parties or processes share them, or nobody.
func (s *Set) tenantScope() string {
	if s.FairBy == ProcessScope || s.FairBy == LaneScope {
		return ""
	}
	return s.FairBy
}

// isTenant reports whether this process is one tenant of a limit, because only other processes share it fairly.
func (s *Set) isTenant(l *Limit) bool {
	return slices.Contains(s.Fair, l.Policy) && l.Spec.Queue == specs.NoQueue && l.Spec.Algorithm != specs.Window && !l.Observed &&
		!slices.ContainsFunc(s.List, func(p policies.Policy) bool {
			return p.FairBy() != "" || p.Name() == l.Policy && len(p.Lanes()) > 0
		})
}

// Names returns the names of all limits, those of lanes included.
func (s *Set) Names() []string {
	names := make([]string, 0, len(s.Limits))
	for i := range s.Limits {
		names = append(names, s.Limits[i].Policy)
	}
	return names
}

// Texts returns the policies as text.
func (s *Set) Texts() []string {
	texts := make([]string, 0, len(s.List))
	for _, policy := range s.List {
		texts = append(texts, policy.String())
	}
	return texts
}

// WillEnforce reports whether a list enforces policies that the set observes.
func (s *Set) WillEnforce(list []policies.Policy) bool {
	return slices.ContainsFunc(s.Limits, func(l Limit) bool {
		return l.Observed && l.Whole == "" &&
			!slices.ContainsFunc(list, func(one policies.Policy) bool { return one.Name() == l.Policy && one.IsObserved() })
	})
}
