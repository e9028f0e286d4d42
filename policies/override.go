package policies

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxOverrides is the most keys of a policy with a [Policy.Override].
const maxOverrides = 10_000

// overrides are a policy's keys with numbers of their own. They never change: adding one makes new ones.
type overrides struct {
	last *override // and those before it
	n    int
	by   func(values []string) (Policy, bool) // nil: there is none

	once     sync.Once
	index    map[string]*override
	repeated *override // one whose key has another override, too; nil if there is none
}

// An override has the numbers of one key.
type override struct {
	values []string
	with   Policy
	before *override
}

// Override returns a copy whose key with these scope values, in the order of [Policy.Per], has the numbers of another policy, as for a
// tenant with a larger plan.
//
//	policies.PerSecond(5).Per("tenant").Override(policies.PerSecond(50).Burst(10), "acme")
//
// The key uses all numbers of the policy in with, and none of p's: limit, period, burst, skew, buckets, adaptation and lease. It keeps p's
// name, scopes, lanes and fairness, and whether p is observed. So the policy in with must set none of these, and must be of the same kind
// as p: a rate, a window, or calls in flight. [Policy.Validate] returns an error otherwise.
//
// Call it once for each key, at most 10,000 times. For more keys, or numbers in a table of yours, use [Policy.OverrideBy]. [Policy.String]
// and [Policy.Spec] return those of p; [Policy.Lines] writes them together.
func (p Policy) Override(with Policy, values ...string) Policy {
	o := &overrides{n: 1}
	one := &override{values: slices.Clone(values), with: with}
	if p.overrides != nil {
		o.n, o.by, one.before = p.overrides.n+1, p.overrides.by, p.overrides.last
	}
	o.last, p.overrides = one, o
	if o.n > maxOverrides {
		return p.mistake("Overrides", strconv.Itoa(o.n), fmt.Sprintf("must be at most %d: use OverrideBy", maxOverrides))
	}
	return p
}

// OverrideBy returns a copy that calls f for the numbers of each key without an [Policy.Override]. If f returns false, the key has the
// numbers of p. f gets the scope values in the order of [Policy.Per], in a slice that it must not keep or change. It is called often and
// concurrently, so it must be fast and must not block: let it read a table that something else keeps current. The policies that f returns
// must fit as those of Override must; [Policy.For] reports one that does not. The last OverrideBy counts.
func (p Policy) OverrideBy(f func(values []string) (Policy, bool)) Policy {
	o := &overrides{by: f}
	if p.overrides != nil {
		o.last, o.n = p.overrides.last, p.overrides.n
	}
	p.overrides = o
	if f == nil {
		return p.mistake("OverrideBy", "nil", "give a function that knows the numbers of a key, or leave it out")
	}
	return p
}

// HasOverrides reports whether some keys may have numbers of their own: see [Policy.For].
func (p Policy) HasOverrides() bool { return p.overrides != nil }

// Overrides returns the scope values of each [Policy.Override], in the order of [Policy.Per], and the policy whose numbers they have, in
// order of their keys. Do not change the values.
func (p Policy) Overrides() iter.Seq2[[]string, Policy] {
	return func(yield func([]string, Policy) bool) {
		if p.overrides == nil {
			return
		}
		_ = p.overrides.find(nil) // makes the index
		for _, key := range slices.Sorted(maps.Keys(p.overrides.index)) {
			if one := p.overrides.index[key]; !yield(one.values, one.with) {
				return
			}
		}
	}
}

// For returns the policy for the key with these scope values, in the order of [Policy.Per]: with the numbers of its [Policy.Override], or
// else those that the function of [Policy.OverrideBy] returns, or else those of p. Its name, scopes, lanes and fairness are p's, and it has
// no overrides.
//
// If there are not as many values as scopes, or the function's policy does not fit, For returns an [*Error] and the policy with the numbers
// of p. The result is meaningful only if p is valid. For checks a key's own numbers each time, which takes some microseconds: keep the
// result if you need it often.
func (p Policy) For(values ...string) (Policy, error) {
	own := p
	own.overrides = nil
	if p.overrides == nil && len(values) == len(p.scopes) {
		return own, nil
	}
	if err := p.checkValues(values); err != nil {
		err.Policy = p.Name()
		return own, err
	}
	with, ok := Policy{}, false
	if one := p.overrides.find(values); one != nil {
		with, ok = one.with, true
	} else if p.overrides.by != nil {
		with, ok = p.overrides.by(values)
	}
	if !ok {
		return own, nil
	}
	q, err := p.with(with, values)
	if err != nil {
		err.Policy = p.Name()
		return own, err
	}
	return q, nil
}

// find returns the override of a key; nil without one.
func (o *overrides) find(values []string) *override {
	o.once.Do(func() {
		o.index = make(map[string]*override, o.n)
		for one := o.last; one != nil; one = one.before {
			key := keyOf(one.values)
			if o.index[key] != nil {
				o.repeated = one
			}
			o.index[key] = one
		}
	})
	return o.index[keyOf(values)]
}

// keyOf returns a text that differs for different values.
func keyOf(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	var b strings.Builder
	for _, v := range values {
		b.WriteString(strconv.Itoa(len(v)))
		b.WriteByte(':')
		b.WriteString(v)
	}
	return b.String()
}

// with returns the policy with the numbers of another one, for the key with these values.
func (p Policy) with(with Policy, values []string) (Policy, *Error) {
	bad := func(field, value, reason string) (Policy, *Error) {
		return Policy{}, &Error{Field: strings.TrimSpace("Override for " + shown(values) + " " + field), Value: value, Reason: reason}
	}
	switch {
	case with.name != "":
		return bad("", strconv.Quote(with.name), "must have no name: it is the policy's")
	case len(with.scopes) > 0 || with.optional:
		return bad("", with.String(), "must have no scopes: they are the policy's")
	case len(with.lanes) > 0 || with.percent > 0 || with.fair != "":
		return bad("", with.String(), "must have no lanes and not be fair by a scope: set that on the policy itself")
	case with.observed:
		return bad("", with.String(), "must not be observed: set that on the policy itself")
	case with.overrides != nil:
		return bad("", with.String(), "must have no overrides itself")
	case with.shape == shapeNone:
		return bad("", "the zero value", "make it with a constructor such as PerSecond, AtMost or Daily")
	case with.kind() != p.kind():
		return bad("", with.String(), "must be of the policy's kind: "+p.kind())
	}
	q := with
	q.name, q.scopes, q.optional, q.observed = p.Name(), p.scopes, p.optional, p.observed
	q.lanes, q.percent, q.kept, q.fair = p.lanes, p.percent, p.kept, p.fair
	if q.err == nil {
		q.err = p.err
	}
	if p.shared {
		q = q.stacked()
	}
	whole := q
	if q.percent > 0 { // a lane's part must be usable, as in the policy that names the lane
		whole.name, whole.percent, whole.kept, whole.lanes = "whole", 0, false, []lane{{"part", q.percent, q.kept}}
	}
	if err := cmp.Or(q.checkOwn(), whole.checkOwn()); err != nil {
		return bad(err.Field, err.Value, err.Reason)
	}
	return q, nil
}

// kind returns how a store accounts for the policy.
func (p Policy) kind() string {
	switch p.shape {
	case shapeRate, shapeAtMost:
		return "a rate"
	case shapeFixed, shapeCalendar, shapeSliding:
		return "a window"
	case shapeInFlight:
		return "calls in flight"
	case shapeNone:
	}
	return "none"
}

// checkValues checks that values can be those of a key.
func (p Policy) checkValues(values []string) *Error {
	bad := func(reason string) *Error {
		return &Error{Field: "Override", Value: "for " + shown(values), Reason: reason}
	}
	switch {
	case len(p.scopes) == 0:
		return bad("a policy of the whole upstream has no keys: add Per")
	case len(values) != len(p.scopes):
		return bad("must have a value for each scope, in this order: " + strings.Join(p.scopes, ", "))
	case slices.Contains(values, ""):
		return bad("has an empty value: a call without a value is of no key")
	}
	return nil
}

// checkOverrides checks that each key's policy can be used.
func (p Policy) checkOverrides() *Error {
	if p.overrides == nil {
		return nil
	}
	if len(p.scopes) == 0 {
		return &Error{Field: "Overrides", Value: "given", Reason: "a policy of the whole upstream has no keys: add Per"}
	}
	for one := p.overrides.last; one != nil; one = one.before {
		if err := p.checkValues(one.values); err != nil {
			return err
		}
		if _, err := p.with(one.with, one.values); err != nil {
			return err
		}
	}
	_ = p.overrides.find(nil)
	if one := p.overrides.repeated; one != nil {
		return &Error{Field: "Override", Value: "for " + shown(one.values), Reason: "is given twice: leave one of them out"}
	}
	return nil
}

// shown writes the values of a key for people.
func shown(values []string) string {
	quoted := make([]string, 0, len(values))
	for _, v := range values {
		quoted = append(quoted, quote(v))
	}
	if len(quoted) == 0 {
		return "no values"
	}
	return strings.Join(quoted, ", ")
}
