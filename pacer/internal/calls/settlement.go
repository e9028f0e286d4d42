package calls

import (
	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/policies"
)

// A Settlement is what a call really cost, as its caller says it afterwards.
type Settlement struct {
	opts []Option
	all  int64 // by policies that are not named; −1 if that is as it was charged
}

// Settlement reads what a call really cost that is bound by a set.
func (r *Reader) Settlement(set *binding.Set, opts []Option) (Settlement, error) {
	s := Settlement{opts: opts, all: -1}
	for i := range opts {
		o := &opts[i]
		if o.Kind != Cost && o.Kind != CostOf {
			return s, r.Errors.Invalid("Settle", "an option", "is neither a Cost nor a CostOf")
		}
		if o.N < 0 || o.N > policies.MaxLimit {
			return s, r.badNumber("Settle", o.N, "must be from 0 to policies.MaxLimit")
		}
		if o.Kind == Cost {
			s.all = o.N
		}
	}
	return s, r.checkCosts(set, opts)
}

// CostOf returns what the call cost a policy; −1 if that is what it was charged.
func (s *Settlement) CostOf(policy string) int64 {
	if o := costOption(s.opts, policy); o != nil {
		return o.N
	}
	return s.all
}

// Names reports whether it says what the call cost this policy.
func (s *Settlement) Names(policy string) bool { return costOption(s.opts, policy) != nil }
