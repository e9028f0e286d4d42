package pacer

import (
	"cmp"
	"maps"
	"slices"

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

	list   []policies.Policy
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
}

// maxRemembered bounds how many policies that do not hold any more are remembered by their names.
const maxRemembered = 1000

// newSet unpacks policies, which are valid and go together. before is the set that holds until now; nil if there is none.
func (p *Pacer) newSet(list []policies.Policy, before *policySet) *policySet {
	list = policies.Stacked(list)
	all := parts.Of(list)
	s := &policySet{list: list, limits: make([]limit, len(all)), byName: make(map[string]*limit, len(all))}
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
	s.hasPermits = s.hasPermits || l.Spec.Algorithm == policies.Concurrency
	s.hasQueues = s.hasQueues || l.Spec.HasQueue() || l.lane != ""
	s.scoped = s.scoped || len(l.scopes) > 0 || len(s.lanes) > 0 || s.fairBy != ""
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
