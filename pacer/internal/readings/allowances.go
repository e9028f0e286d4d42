package readings

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// An allowance is a limit of its own beside the one that it is about. No policy can have its name.
const leftMark = "/left"

// shortPeriod is of how long a period a policy is at most that readings do not bind: they come too late, and the wait after each reset
// costs more than it saves.
const shortPeriod = 2 * time.Second

// FirstOpen is how many calls go to an upstream without policies before it has answered one.
const FirstOpen = 3

// Apart is how far apart calls go after the end of an allowance, until one of them is answered.
const Apart = numbers.Apart * time.Microsecond

// AllowanceOf returns the allowance of a limit; that of the whole upstream for the zero Limit.
func AllowanceOf(l store.Limit) store.Limit {
	return store.Limit{
		Policy: l.Policy + leftMark, Scope: l.Scope, Spec: specs.Spec{Algorithm: specs.Allowance, Limit: specs.MaxLimit},
	}
}

// PolicyOf returns the policy that a limit is about by its name; "" if it is the allowance of a limit that no policy is about.
func PolicyOf(name string) string {
	policy, _, _ := strings.Cut(name, leftMark)
	return policy
}

// TagOf returns what distinguishes an allowance from others without a policy: its name, or how much it allows; "" if that is not known.
func TagOf(name string) string {
	_, tag, _ := strings.Cut(name, leftMark)
	tag, _, _ = strings.Cut(tag, apartMark)
	return strings.TrimPrefix(tag, ".")
}

// IsAllowance reports whether a name is that of an allowance.
func IsAllowance(name string) bool {
	policy, tag, found := strings.Cut(name, leftMark)
	if tag, scope, apart := strings.Cut(tag, apartMark); found && policy == "" {
		return (tag == "" || tag[0] == '.' && policies.ValidName(tag[1:])) && (!apart || policies.ValidName(scope))
	}
	return found && tag == "" && policies.ValidName(policy)
}

// allowances returns the allowances that a reading is about, by index. Allowances that do not bind the call are added to the limits of the
// notes. A reading that fits no policy is about the upstream: for each name or number that readings carry there is one, or, once they show
// that the values of a scope are counted apart, one for each value.
func (r *Rules) allowances(n *Notes, m *Memory, a *Answer, f *policies.Feedback, t targets) (all []int) {
	about := t.limits
	if !t.named {
		about = r.fitting(a, f, t)
		if len(about) == 0 && t.within != "" {
			about = t.limits
		}
		if len(about) == 0 && f.Reset > 0 && f.Reset <= shortPeriod && r.isShort(a) {
			return nil
		}
		if len(about) == 0 {
			return []int{r.ofUpstream(n, m, a, f)}
		}
	}
	for _, i := range about {
		l := &a.Limits[i]
		if _, period := r.policyOf(l).Limit(); l.Spec.Algorithm == specs.Concurrency || period <= shortPeriod && f.Reset <= shortPeriod {
			continue
		}
		all = append(all, n.index(AllowanceOf(*l), ""))
	}
	return all
}

// isShort reports whether all limits of the call are so short that readings come too late, and that waits in whole seconds mean little.
func (r *Rules) isShort(a *Answer) (short bool) {
	for i := range a.Limits {
		if l := &a.Limits[i]; l.Spec.Algorithm == specs.GCRA || l.Spec.Algorithm == specs.Window {
			if _, period := r.policyOf(l).Limit(); period > shortPeriod {
				return false
			}
			short = true
		}
	}
	return short
}

// ofUpstream returns the allowance that a reading is about which no policy is about.
func (r *Rules) ofUpstream(n *Notes, m *Memory, a *Answer, f *policies.Feedback) int {
	tag := r.tag(m, a, f)
	scope := ApartFrom(leftMark+tag, r.bound)
	if left, counted := f.Left().Value(); scope == "" && counted {
		scope = m.watch(leftMark+tag, a, left, f.Reset)
	}
	if scope != "" {
		if value := a.carried()[scope]; value != "" {
			return n.index(AllowanceOf(store.Limit{Scope: store.EscapeScope(value)}), tag+apartMark+scope)
		}
	}
	return n.index(AllowanceOf(store.Limit{}), tag)
}

// maxTags bounds the allowances of an upstream that no policy is about: a header must not make keys without end.
const maxTags = 8

// tag distinguishes the limits of an upstream that no policy is about: by their names, or else their numbers, or else which of two is reset
// sooner. All beyond maxTags are one.
func (r *Rules) tag(m *Memory, a *Answer, f *policies.Feedback) string {
	tag := ""
	limit, limited := f.Limit.Value()
	switch {
	case len(f.Policies) > 0 && policies.ValidName(f.Policies[0]):
		tag = "." + f.Policies[0]
	case limited:
		tag = "." + strconv.FormatInt(limit, 10)
	case m.isSooner(a, f.Reset, slices.Contains(r.bound, leftMark+soonerTag)):
		tag = soonerTag
	}
	tags := 0
	for _, name := range r.bound {
		if name == leftMark+tag {
			return tag
		}
		if PolicyOf(name) == "" && ApartBy(name) == "" {
			tags++
		}
	}
	if tags >= maxTags {
		return ""
	}
	return tag
}

// index returns the index of an allowance among the limits of the notes.
func (n *Notes) index(l store.Limit, tag string) int {
	l.Policy += tag
	if i := slices.IndexFunc(n.Limits, func(of store.Limit) bool { return of.Key() == l.Key() }); i >= 0 {
		return i
	}
	n.Limits = append(slices.Clip(n.Limits), l)
	return len(n.Limits) - 1
}
