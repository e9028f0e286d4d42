package feedback

import (
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// An allowance is a limit of its own beside the one that it is about. No policy can have its name.
const leftMark = "/left"

// shortPeriod is of how long a period a policy is at most that readings do not bind: they come too late, and the wait after each reset
// costs more than it saves.
const shortPeriod = 2 * time.Second

// AllowanceOf returns the allowance of a limit; that of the whole upstream for the zero Limit.
func AllowanceOf(l store.Limit) store.Limit {
	return store.Limit{
		Policy: l.Policy + leftMark, Scope: l.Scope, Spec: policies.Spec{Algorithm: policies.Allowance, Limit: policies.MaxLimit},
	}
}

// PolicyOf returns the policy that a limit is about by its name; "" if it is the allowance of a limit that no policy is about.
func PolicyOf(name string) string {
	policy, _, _ := strings.Cut(name, leftMark)
	return policy
}

// IsAllowance reports whether a limit is an allowance by its name.
func IsAllowance(name string) bool { return strings.Contains(name, leftMark) }

// allowances returns the allowances that a reading is about, by index. Those that do not bind the call are added to the limits of the notes.
// A reading that fits no policy is about the upstream: for each name or number that readings carry there is one.
func (r *Rules) allowances(n *Notes, a *Answer, f *policies.Feedback, t targets) (all []int) {
	about := t.limits
	if !t.named {
		about = r.fitting(a, f, t)
		if len(about) == 0 && t.within != "" {
			about = t.limits
		}
		if len(about) == 0 {
			return []int{n.index(AllowanceOf(store.Limit{}), tag(f))}
		}
	}
	for _, i := range about {
		l := &a.Limits[i]
		if _, period := r.policyOf(l).Limit(); l.Spec.Algorithm == policies.Concurrency || period <= shortPeriod && f.Reset <= shortPeriod {
			continue
		}
		all = append(all, n.index(AllowanceOf(*l), ""))
	}
	return all
}

// tag tells the limits of an upstream apart that no policy is about.
func tag(f *policies.Feedback) string {
	limit, limited := f.Limit.Value()
	switch {
	case len(f.Policies) > 0:
		return "." + f.Policies[0]
	case limited:
		return "." + strconv.FormatInt(limit, 10)
	}
	return ""
}

// index returns the index of an allowance among the limits of the notes.
func (n *Notes) index(l store.Limit, tag string) int {
	l.Policy += tag
	for i := range n.Limits {
		if n.Limits[i].Policy == l.Policy && n.Limits[i].Scope == l.Scope {
			return i
		}
	}
	n.Limits = append(n.Limits[:len(n.Limits):len(n.Limits)], l)
	return len(n.Limits) - 1
}
