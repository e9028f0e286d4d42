package binding

import (
	"fmt"
	"strconv"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// Settling is what a call's settlement needs besides its charges; nil for a call that is not settled.
type Settling struct {
	Free    []store.Limit // that the call cost nothing at first
	Lessons []Lesson
}

// Costs returns the limits that charge a call, and the costs; no costs if each is Ask.Cost. It writes what a settlement needs to s, unless
// s is nil.
func (r *Reader) Costs(a *Ask, limits []store.Limit, s *Settling) ([]store.Limit, []int64, error) {
	if err := r.checkCosts("CostOf", a.Set, a.Options); err != nil {
		return nil, nil, err
	}
	return r.costs(a, limits, s)
}

// costs is Costs of a call whose options were checked: its error is that a limit never admits the call.
func (r *Reader) costs(a *Ask, limits []store.Limit, s *Settling) ([]store.Limit, []int64, error) {
	var all []int64
	if a.ByPolicy {
		limits, all = r.ownCosts(a, limits, s)
	}
	call := store.Call{Cost: a.Cost, Costs: all}
	for i := range limits {
		l, n := &limits[i], call.CostOf(i)
		if l.Spec.Algorithm != specs.Concurrency && n > l.Spec.Limit { // a call has one permit, whatever it costs
			return nil, nil, r.Errors.Excess(l, n, a.MaxWait)
		}
	}
	return limits, all, nil
}

// ownCosts returns the limits that charge a call, and how much. Costs are learned of whole policies, not of a lane's part.
func (r *Reader) ownCosts(a *Ask, limits []store.Limit, s *Settling) ([]store.Limit, []int64) {
	bound, all := make([]store.Limit, 0, len(limits)), make([]int64, 0, len(limits))
	for i := range limits {
		l, own := &limits[i], Option{N: a.Cost}
		policy := a.Set.WholeOf(l.Policy)
		if o := a.CostOption(policy); o != nil {
			own = *o
		}
		learns := own.Learned.Times > 0
		if learns {
			own.N = r.Learner.Estimate(store.Key{Policy: policy, Scope: l.Scope}, own.N, own.Learned)
		}
		if own.N == 0 {
			if s != nil && !a.leaves(l) && (l.Spec.Algorithm == specs.GCRA || l.Spec.Algorithm == specs.Window) { // nothing else is settled
				s.Free = append(s.Free, *l)
			}
			continue
		}
		if learns && s != nil && policy == l.Policy {
			s.Lessons = append(s.Lessons, Lesson{Key: l.Key(), How: own.Learned})
		}
		if own.Estimate {
			own.N = min(own.N, l.Spec.Limit)
		}
		bound, all = append(bound, *l), append(all, own.N)
	}
	return bound, all
}

// checkCosts returns an error, about a field, if a CostOf names an unknown policy, or one whose cost cannot be set.
func (r *Reader) checkCosts(field string, set *Set, opts []Option) error {
	for i := range opts {
		o := &opts[i]
		if o.Kind != CostOf {
			continue
		}
		l := set.Named(o.Name)
		switch {
		case l == nil:
			return Invalid(field, strconv.Quote(o.Name), fmt.Sprintf("no policy of upstream %q has that name", r.Upstream))
		case l.Whole != "":
			return Invalid(field, strconv.Quote(o.Name), fmt.Sprintf("is a part of policy %q: a call costs both the same", l.Whole))
		case l.Spec.Algorithm == specs.Concurrency && o.N > 1:
			return badNumber(field+"("+o.Name+")", o.N, "a call has one permit: leave it out, or use 0 if the policy does not bind the call")
		}
	}
	return nil
}

// CostOption returns the option that sets what the call costs a policy: the last one; nil without one.
func (a *Ask) CostOption(policy string) *Option { return costOption(a.Options, policy) }

func costOption(opts []Option, policy string) *Option {
	for i := len(opts) - 1; i >= 0; i-- {
		if o := &opts[i]; o.Kind == CostOf && o.Name == policy {
			return o
		}
	}
	return nil
}

// A Settlement is the real cost of a call, set after it.
type Settlement struct {
	set  *Set
	opts []Option
	all  int64 // by policies that are not named; −1 if that is as it was charged
}

// Settlement reads the real cost of a call that a set binds.
func (r *Reader) Settlement(set *Set, opts []Option) (*Settlement, error) {
	s := &Settlement{set: set, opts: opts, all: -1}
	for i := range opts {
		o := &opts[i]
		if o.Kind != Cost && o.Kind != CostOf {
			return nil, Invalid("Settle", "an option", "is neither a Cost nor a CostOf")
		}
		if o.N < 0 || o.N > specs.MaxLimit {
			return nil, badNumber("Settle", o.N, "must be from 0 to specs.MaxLimit")
		}
		if o.Kind == Cost {
			s.all = o.N
		}
	}
	return s, r.checkCosts("Settle", set, opts)
}

// CostOf returns what the call cost a policy, or a lane's part, which costs the same; −1 if the charge stays.
func (s *Settlement) CostOf(policy string) int64 {
	if o := costOption(s.opts, s.set.WholeOf(policy)); o != nil {
		return o.N
	}
	return s.all
}

// Names reports whether it has a cost for this policy.
func (s *Settlement) Names(policy string) bool {
	return costOption(s.opts, s.set.WholeOf(policy)) != nil
}
