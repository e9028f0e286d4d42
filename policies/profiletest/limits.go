package profiletest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headway-go/headway/policies"
)

// Limits fails if a vendor's limits do not fit its profile: there must be some, each must be valid, no two may share a
// name, and each scope of a limit must be one that the profile reads. Give it the stack of each plan.
func Limits(t *testing.T, p policies.Profile, limits []policies.Policy) {
	t.Helper()
	for _, failure := range unfit(p, limits) {
		t.Errorf("profile %q: %s", p.Name, failure)
	}
}

// unfit returns in which ways limits and profile do not fit.
func unfit(p policies.Profile, limits []policies.Policy) []string {
	var failures []string
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }

	if !policies.ValidName(p.Name) {
		fail("the profile's own name is %q (rule: names are valid, see policies.ValidName)", p.Name)
	}
	scopes := make([]string, 0, len(p.Scopes))
	for _, s := range p.Scopes {
		if !policies.ValidName(s.Name) || s.Value == nil {
			fail("scope %q (rule: a scope has a valid name and a function)", s.Name)
		}
		if slices.Contains(scopes, s.Name) {
			fail("scope %q is there twice (rule: a scope has one value)", s.Name)
		}
		scopes = append(scopes, s.Name)
	}
	if len(limits) == 0 {
		fail("there are no limits (rule: a plan limits something)")
	}
	names := make([]string, 0, len(limits))
	for _, l := range limits {
		if err := l.Validate(); err != nil {
			fail("%v (rule: a limit can be used as it is)", err)
		} else if read, err := policies.Parse(l.String()); err != nil || read.String() != l.String() {
			fail("%q is read as %q, %v (rule: a limit can be read from its text)", l, read, err)
		}
		if slices.Contains(names, l.Name()) {
			fail("policy %q is there twice (rule: a name stands for one limit)", l.Name())
		}
		names = append(names, l.Name())
		for _, s := range l.Scopes() {
			if !slices.Contains(scopes, s) {
				fail("policy %q is per %q; the profile reads the scopes %q (rule: the profile fills each scope of a limit)", l.Name(), s, scopes)
			}
		}
	}
	return failures
}
