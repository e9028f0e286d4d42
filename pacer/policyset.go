package pacer

import (
	"cmp"
	"maps"
	"slices"
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
	lane     string // it binds only calls of this lane; "" for all
	whole    string // of a lane's part: the policy that it belongs to

	prepared store.Prepared // if the store is direct
}

// A policySet is the policies by which a Pacer paces, unpacked once. It never changes: a Pacer whose policies change has another one, and
// each call keeps that by which it was bound.
type policySet struct {
	generation int64 // of the sets of a Pacer, from 1

	given  []policies.Policy // as they were given
	source string            // who set them; "" for this process
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

	rules *feedback.Rules

	// Some keys have numbers of their own: those that operators have set, and those that the policies know.
	special map[store.Key]policies.Policy
	varies  bool
	own     sync.Map     // of keys that have been met: from store.Key to policies.Policy
	owned   atomic.Int64 // how many those are
}

// maxOwned bounds how many keys with numbers of their own are remembered. For others, what only their numbers tell is told from those of
// their policy: the share of a process that is without its store, and what an upstream reports.
const maxOwned = 1 << 16

// maxRemembered bounds how many policies that do not hold any more are remembered by their names.
const maxRemembered = 1000

// newSet unpacks policies, which are valid and go together. before is the set that holds until now; nil if there is none.
func (p *Pacer) newSet(given []policies.Policy, before *policySet, special map[store.Key]policies.Policy) *policySet {
	list := policies.Stacked(given)
	all := parts.Of(list)
	s := &policySet{given: given, list: list, special: special, limits: make([]limit, len(all)), byName: make(map[string]*limit, len(all))}
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
	if !s.scoped {
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
	s.hasPermits = s.hasPermits || l.Spec.Algorithm == policies.Concurrency
	s.hasQueues = s.hasQueues || l.Spec.HasQueue() || l.lane != ""
	s.scoped = s.scoped || len(l.scopes) > 0 || len(s.lanes) > 0 || s.fairBy != ""
}

// specOf returns what holds for a key of a limit.
func (s *policySet) specOf(l *limit, a *ask, scope string) policies.Spec {
	if !s.varies || scope == "" {
		return l.Spec
	}
	whole := l
	if l.whole != "" {
		whole = s.byName[l.whole]
	}
	policy, found := s.special[store.Key{Policy: whole.Policy, Scope: scope}]
	if !found {
		if !whole.policy.HasOverrides() {
			return l.Spec
		}
		var few [4]string
		values := few[:0]
		for _, name := range whole.scopes {
			values = append(values, a.scope(name))
		}
		policy, _ = whole.policy.For(values...) // with an error, it is the policy itself
	}
	if l.lane != "" {
		if part, ok := policy.InLane(l.lane); ok {
			policy = part
		}
	}
	spec := policy.Spec()
	if !spec.Equal(&l.Spec) {
		s.remember(store.Key{Policy: l.Policy, Scope: scope}, policy)
	}
	return spec
}

// remember remembers the numbers of a key.
func (s *policySet) remember(k store.Key, policy policies.Policy) {
	if _, known := s.own.Swap(k, policy); !known && s.owned.Add(1) > maxOwned {
		s.own.Delete(k)
		s.owned.Add(-1)
	}
}

// policyOf returns the policy of a limit, as it holds for its key, or of a set before.
func (s *policySet) policyOf(l *store.Limit) policies.Policy {
	if own, ok := s.own.Load(l.Key()); ok {
		return own.(policies.Policy) //nolint:forcetypeassert // remember stores no other
	}
	if of := s.byName[l.Policy]; of != nil {
		return of.policy
	}
	return policies.Policy{}
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
