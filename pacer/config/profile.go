package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
	"github.com/headway-go/headway/policies/specs"
)

// chooseProfile takes the profile of the vendor of the upstream's policies, unless the file names one, and changes its reports.
func (u *upstreamReader) chooseProfile(at value) {
	vendors := slices.Sorted(maps.Keys(u.vendor))
	switch {
	case u.profileName != "":
	case len(vendors) == 0:
		u.profile, u.profileName = ietf.Profile, "ietf"
	case len(vendors) == 1:
		u.profile, u.profileName = u.vendors.profiles[vendors[0]], vendors[0]
	default:
		at.failf("has policies of %s: set profile to the vendor whose replies it reads", strings.Join(vendors, " and "))
	}
	for _, change := range u.changes {
		u.profile = change(u.profile)
	}
}

func (u *upstreamReader) readProfile(v value) {
	name, ok := v.text("a profile, such as github")
	if !ok {
		return
	}
	if u.profile, ok = u.vendors.profiles[name]; !ok {
		v.failf("unknown profile: choose one of %s", strings.Join(slices.Sorted(maps.Keys(u.vendors.profiles)), ", "))
	}
	u.profileName = name
}

// readLeave reads how much of the reported allowances is for other programs: a number, or a percentage.
func (u *upstreamReader) readLeave(v value) {
	s, ok := v.text("a number such as 500, or a percentage such as 50%")
	if !ok {
		return
	}
	number, isPercent := strings.CutSuffix(s, "%")
	n, err := strconv.ParseInt(strings.ReplaceAll(number, "_", ""), 10, 64)
	if err != nil || n < 1 || n > specs.MaxLimit || isPercent && n > 99 {
		v.failf("is not a whole number from 1 to %d, or a percentage from 1%% to 99%%", specs.MaxLimit)
		return
	}
	u.change("leave "+s, func(p policies.Profile) policies.Profile {
		if isPercent {
			return p.LeavePercent(int(n))
		}
		return p.Leave(n)
	})
}

// readBackOff reads how long all calls wait after a refusal that requests no wait.
func (u *upstreamReader) readBackOff(v value) {
	if d := v.duration(nil); d > 0 {
		u.change(fmt.Sprintf("backOff %v", d), func(p policies.Profile) policies.Profile { return p.BackOff(d) })
	}
}

// change records a change of the profile, which is chosen later.
func (u *upstreamReader) change(text string, f func(policies.Profile) policies.Profile) {
	u.changes, u.changed = append(u.changes, f), u.changed+", "+text
}
