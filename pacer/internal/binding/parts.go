package binding

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// A Part is a policy, or a lane's part of one.
type Part struct {
	policies.Policy

	Lane  string // it binds only calls of this lane; "" for all
	Whole string // of a lane's part: the policy that it is a part of
}

// PartsOf returns all policies, each followed by its lanes' parts.
func PartsOf(all []policies.Policy) []Part {
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

// NoPolicies is the text of an empty list.
const NoPolicies = "none"

// Parse reads the policies of an upstream, one a line, with lines for their overrides, and checks them.
func Parse(text string) ([]policies.Policy, error) {
	if text == NoPolicies {
		return []policies.Policy{}, nil
	}
	list, err := policies.ParseLines(strings.Split(text, "\n")...)
	if err != nil {
		return nil, err
	}
	return list, Check("Policies", list)
}

// Check returns an error about the first policy that is not valid, or that cannot be combined with those before.
func Check(field string, list []policies.Policy) error {
	names, fairBy, first := make(map[string]bool), "", policies.Policy{}
	for i, p := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if err := p.Validate(); err != nil {
			return &store.ConfigError{Field: at, Err: err}
		}
		for _, one := range PartsOf(list[i : i+1]) {
			if names[one.Name()] {
				return Invalid(at, strconv.Quote(one.Name()), "the name of an earlier policy, or of a lane's part of one: give one of them another with Named, or in text with a name before it, such as peak: 25/s")
			}
			names[one.Name()] = true
		}
		by := p.FairBy()
		if by != "" && fairBy != "" && by != fairBy {
			return Invalid(at, fmt.Sprintf("fair by %q", by),
				fmt.Sprintf("another policy is fair by %q: a call belongs to one share, so all of them must name the same scope", fairBy))
		}
		if by == specs.PartyScope && fairBy == by && !sameParts(&first, &p) {
			return Invalid(at, strconv.Quote(p.Name()), fmt.Sprintf(
				"it keeps other parts than %q: a call has one part of all rates, so all that keep parts must keep the same ones", first.Name()))
		}
		if fairBy == "" {
			fairBy, first = by, p
		}
	}
	for i, one := range slices.Backward(PartsOf(list)) {
		if i >= maxWithParts && one.Spec().Floor > 0 {
			return tooManyParts(field, i+1, one.Name())
		}
	}
	return nil
}

// maxWithParts bounds the limits of a call with parts of parties, without allowances: a number of the store has a bit for each.
const maxWithParts = 52

// lastPart returns the index of the last limit that is kept for a party; -1 if none is.
func lastPart(limits []store.Limit) int {
	for i, l := range slices.Backward(limits) {
		if l.Spec.Floor > 0 {
			return i
		}
	}
	return -1
}

// tooManyParts returns the error of a field with more limits than a stack with a part may have.
func tooManyParts(field string, n int, policy string) error {
	return Invalid(field, fmt.Sprintf("with %d limits", n), fmt.Sprintf(
		"at most %d may come up to %q, which is kept for a party: have fewer parties, policies or credentials", maxWithParts, policy))
}

// sameParts reports whether two rates keep the same parts for the same parties.
func sameParts(a, b *policies.Policy) bool {
	for _, party := range append(a.Lanes(), b.Lanes()...) {
		if a.Weight(party) != b.Weight(party) {
			return false
		}
	}
	return len(a.Lanes()) == len(b.Lanes())
}
