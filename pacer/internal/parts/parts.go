package parts

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/headway-go/headway/policies"
)

// A Part is a policy, or what a lane has of one.
type Part struct {
	policies.Policy

	Lane  string // it binds calls of this lane alone; "" for all
	Whole string // of a lane's part: the policy that it is a part of
}

// Of returns all policies, each followed by its lanes' parts.
func Of(all []policies.Policy) []Part {
	var ps []Part
	for _, policy := range all {
		ps = append(ps, Part{Policy: policy})
		for _, lane := range policy.Lanes() {
			if own, ok := policy.InLane(lane); ok {
				ps = append(ps, Part{own, lane, policy.Name()})
			}
		}
	}
	return ps
}

// A Conflict is why a policy does not go together with those before it.
type Conflict struct {
	Index  int    // which policy it is
	Value  string // what it has
	Reason string // what is wrong with that, and what to do
}

// Check returns the first conflict between policies, each of which is valid; nil if they go together.
func Check(all []policies.Policy) *Conflict {
	names, fairBy := make(map[string]bool), ""
	for i, p := range all {
		for _, one := range Of(all[i : i+1]) {
			if names[one.Name()] {
				return &Conflict{
					Index: i, Value: strconv.Quote(one.Name()),
					Reason: "the name of an earlier policy, or of a lane's part of one: give one of them another with Named",
				}
			}
			names[one.Name()] = true
		}
		if by := p.FairBy(); by != "" && fairBy != "" && by != fairBy {
			return &Conflict{
				Index: i, Value: fmt.Sprintf("fair by %q", by),
				Reason: fmt.Sprintf("another policy is fair by %q: a call belongs to one share, so all of them must name the same scope", fairBy),
			}
		}
		fairBy = cmp.Or(fairBy, p.FairBy())
	}
	return nil
}
