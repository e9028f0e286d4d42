package pacer

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headway-go/headway/pacer/internal/feedback"
	"github.com/headway-go/headway/pacer/internal/parts"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A limit is a policy, unpacked once.
type limit struct {
	store.Limit

	policy   policies.Policy
	scopes   []string
	optional bool
	observed bool   // it is not enforced
	lane     string // it binds only calls of this lane; "" for all
	whole    string // of a lane's part: the policy that it belongs to

	prepared store.Prepared // if the store is direct

	own func(scope string, values []string) policies.Spec // what holds for a key
}

// A policySet is the policies by which a Pacer paces, unpacked once. It never changes: a Pacer whose policies change has another one, and
// each call keeps that by which it was bound.
type policySet struct {
	generation int64 // of the sets of a Pacer, from 1

	given  []policies.Policy // as they were given
	source string            // who set them; "" for this process
	mode   Mode
	list   []policies.Policy // as they bind calls together
	bound  []policies.Policy // with the parts of lanes
	limits []limit
	byName map[string]*limit // with those of the sets before, of which calls may still be on their way
	scoped bool              // some limits have scopes

	fixed []store.Limit // the stack of every call, if no limit has a scope

	lanes      []string // of all policies
	hasQueues  bool     // some limits are granted only shortly before the slot, or bind only one lane
	fairBy     string   // the scope by which shares are fair; "" if no shares are
	hasPermits bool     // some limits are of calls in flight
	observes   bool     // some limits are observed
	free       bool     // none is enforced, and calls do not heed the upstream's pauses either: all are observed

	rules *feedback.Rules

	// Some keys have numbers of their own: those that operators have set, and those that the policies know.
	special map[store.Key]policies.Policy
	varies  bool
	met     sync.Map     // the values of keys that have been met, by store.Key
	owned   atomic.Int64 // how many those are
}

// maxOwned bounds how many keys with numbers of their own are remembered. For others, what only their numbers tell is told from those of
// their policy: the share of a process that is without its store, and what an upstream reports.
const maxOwned = 1 << 16

// maxRemembered bounds how many policies that do not hold any more are remembered by their names.
const maxRemembered = 1000

// newSet unpacks policies, which are valid and go together. before is the set that holds until now; nil if there is none.
func (p *Pacer) newSet(given []policies.Policy, before *policySet, special map[store.Key]policies.Policy) *policySet {
	list := policies.Stacked(inMode(given, p.mode))
	all := parts.Of(list)
	s := &policySet{given: given, list: list, special: special, mode: p.mode, limits: make([]limit, len(all)), byName: make(map[string]*limit, len(all))}
	s.generation = 1
	if before != nil {
		s.generation = before.generation + 1
	}
	if before != nil && len(before.byName) < maxRemembered {
		s.byName = maps.Clone(before.byName)
	}
	for i := range all {
		s.bound = append(s.bound, all[i].Policy)
		p.addLimit(s, i, &all[i])
	}
	s.rules = feedback.NewRules(s.bound, p.maxPause, p.reconciles)
	s.rules.Own = s.policyOf
	s.free = p.mode == Observe || s.observes && !slices.ContainsFunc(s.limits, func(l limit) bool { return !l.observed })
	if !s.scoped && !s.observes {
		s.fixed = make([]store.Limit, 0, len(s.limits))
		for i := range s.limits {
			s.fixed = append(s.fixed, s.limits[i].Limit)
		}
	}
	return s
}

// addLimit unpacks one policy.
func (p *Pacer) addLimit(s *policySet, i int, one *parts.Part) {
	l := &s.limits[i]
	l.Limit = store.Limit{Policy: one.Name(), Spec: one.Spec()}
	s.byName[l.Policy] = l
	l.policy, l.scopes, l.optional, l.lane, l.whole = one.Policy, one.Scopes(), one.IsOptional(), one.Lane, one.Whole
	l.observed = one.IsObserved()
	l.own = func(scope string, values []string) policies.Spec { return s.specFor(l, scope, values) }
	if p.direct != nil {
		l.prepared = p.direct.Prepare(p.upstream, &l.Limit)
	}
	for _, lane := range one.Lanes() {
		if !slices.Contains(s.lanes, lane) {
			s.lanes = append(s.lanes, lane)
		}
	}
	s.fairBy = cmp.Or(s.fairBy, one.FairBy())
	s.varies = s.varies || one.HasOverrides() || len(s.special) > 0
	s.observes = s.observes || l.observed
	s.hasPermits = s.hasPermits || l.Spec.Algorithm == policies.Concurrency && !l.observed
	s.hasQueues = s.hasQueues || !l.observed && (l.Spec.HasQueue() || l.lane != "")
	s.scoped = s.scoped || len(l.scopes) > 0 || len(s.lanes) > 0 || s.fairBy != ""
}

// specOf returns what holds for a key of a limit.
func (s *policySet) specOf(l *limit, a *ask, scope string) policies.Spec {
	if !s.varies || scope == "" {
		return l.Spec
	}
	var few [4]string
	values := few[:0]
	for _, name := range l.scopes {
		values = append(values, strings.Clone(a.scope(name))) // a function of the user's may keep it: calls that have no overrides are not to pay for that
	}
	return l.own(strings.Clone(scope), values)
}

// specFor returns what holds for a key of a limit, by its escaped scope and its values.
func (s *policySet) specFor(l *limit, scope string, values []string) policies.Spec {
	policy, found := s.specialOf(l, scope)
	if !found {
		whole := s.whole(l)
		if !whole.policy.HasOverrides() {
			return l.Spec
		}
		policy, _ = whole.policy.For(values...) // with an error, it is the policy itself
		policy = l.partOf(policy)
	}
	spec := policy.Spec()
	if !found && !spec.Equal(l.Spec) {
		k := store.Key{Policy: l.Policy, Scope: scope}
		if _, known := s.met.Swap(k, slices.Clone(values)); !known && s.owned.Add(1) > maxOwned {
			s.met.Delete(k)
			s.owned.Add(-1)
		}
	}
	return spec
}

// specialOf returns what operators have set for a key of a limit.
func (s *policySet) specialOf(l *limit, scope string) (policies.Policy, bool) {
	policy, found := s.special[store.Key{Policy: s.whole(l).Policy, Scope: scope}]
	if found && policy.IsObserved() != l.observed { // its numbers were set before the policy was observed, or while it was
		policy = observedIf(policy, l.observed)
	}
	return l.partOf(policy), found
}

// keyed returns what holds for a key of a policy that need not be of this set, as far as operators have set it.
func (s *policySet) keyed(policy policies.Policy, scope string) policies.Policy {
	if l := s.byName[policy.Name()]; l != nil && scope != "" {
		if special, found := s.specialOf(l, scope); found {
			return special
		}
	}
	return policy
}

// whole returns the limit that a limit is, or is a part of.
func (s *policySet) whole(l *limit) *limit {
	if l.whole == "" {
		return l
	}
	return s.byName[l.whole]
}

// partOf returns the part of a policy that a limit is.
func (l *limit) partOf(policy policies.Policy) policies.Policy {
	if l.lane != "" {
		if part, ok := policy.InLane(l.lane); ok {
			return part
		}
	}
	return policy
}

// policyOf returns the policy of a limit, as it holds for its key, or of a set before.
func (s *policySet) policyOf(l *store.Limit) policies.Policy {
	of := s.byName[l.Policy]
	if of == nil {
		return policies.Policy{}
	}
	if policy, found := s.specialOf(of, l.Scope); found {
		return policy
	}
	if values, ok := s.met.Load(l.Key()); ok {
		policy, _ := s.whole(of).policy.For(values.([]string)...) //nolint:forcetypeassert // specFor stores no other
		return of.partOf(policy)
	}
	return of.policy
}

// wholeOf returns the name of the policy that a limit is, or is a part of.
func (s *policySet) wholeOf(name string) string {
	if l := s.byName[name]; l != nil {
		return cmp.Or(l.whole, l.Policy)
	}
	return name
}

// isPart reports whether a limit is a lane's part of a policy.
func (s *policySet) isPart(name string) bool {
	l := s.byName[name]
	return l != nil && l.whole != ""
}

// set returns the policies that hold now.
func (p *Pacer) set() *policySet { return p.policies.Load() }
