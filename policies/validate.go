package policies

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/headway-go/headway/policies/specs"
)

// An Error reports what is wrong with a policy and what to do about it.
type Error struct {
	Number int    // which policy of a text of several it is, from 1; 0 if there is only one: see [ParseAll]
	Policy string // the policy's name; "" if it comes from a text that gives none
	Field  string // the setting at fault, such as "Limit" or "Burst"
	Value  string // what was given
	Reason string // what is wrong with it, or what to do

	_ struct{}
}

// Error implements error.
func (e *Error) Error() string {
	which := ""
	if e.Number > 0 {
		which = fmt.Sprintf("number %d: ", e.Number)
	}
	if e.Policy != "" {
		which += fmt.Sprintf("policy %q: ", e.Policy)
	}
	return fmt.Sprintf("policies: %s%s is %s: %s", which, e.Field, e.Value, e.Reason)
}

var nameGrammar = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ValidName reports whether s can name a policy or a scope: a letter or digit, then at most 63 letters,
// digits, '.', '_' or '-'.
func ValidName(s string) bool { return nameGrammar.MatchString(s) }

// Validate returns nil if the policy can be used, otherwise an [*Error] that names the first setting at fault.
func (p Policy) Validate() error {
	if err := p.check(); err != nil {
		err.Policy = p.Name()
		return err
	}
	return nil
}

func (p Policy) check() *Error {
	if err := p.checkOwn(); err != nil {
		return err
	}
	return p.checkOverrides()
}

// checkOwn checks everything but the overrides.
func (p Policy) checkOwn() *Error {
	bad := func(field string, value any, reason string) *Error {
		return &Error{Field: field, Value: fmt.Sprint(value), Reason: reason}
	}
	if p.shape == shapeNone {
		return bad("Policy", "the zero value", "make it with a constructor such as PerSecond, AtMost or Daily")
	}
	if p.err != nil {
		e := *p.err
		return &e
	}
	if err := p.checkNumbers(bad); err != nil {
		return err
	}
	if err := p.checkNames(bad); err != nil {
		return err
	}
	if err := p.checkLanes(); err != nil {
		return err
	}
	switch p.shape {
	case shapeRate, shapeAtMost:
		return p.checkRate(bad)
	case shapeSliding:
		if p.buckets < 1 || p.buckets > specs.MaxBuckets {
			return bad("Buckets", p.buckets, fmt.Sprintf("must be from 1 to %d", specs.MaxBuckets))
		}
	case shapeInFlight:
	case shapeFixed, shapeCalendar:
		if p.shape == shapeCalendar && p.loc == nil {
			return bad("Location", "nil", "give a time zone such as time.UTC; if it comes from time.LoadLocation, check that error first")
		}
		if p.burst > p.limit {
			return bad("Burst", p.burst, fmt.Sprintf("must be at most the limit, %d", p.limit))
		}
		if p.skewOr(0) >= p.period {
			return bad("Skew", p.skew, "leaves nothing of the window: it must be shorter than the period")
		}
	case shapeNone:
	}
	return nil
}

func (p Policy) checkNumbers(bad func(string, any, string) *Error) *Error {
	switch {
	case p.limit <= 0:
		return bad("Limit", p.limit, "must be at least 1")
	case p.limit > specs.MaxLimit:
		return bad("Limit", p.limit, fmt.Sprintf("must be at most %d", specs.MaxLimit))
	case p.shape == shapeInFlight:
		if p.skew > maxLease {
			return bad("Skew", p.skew, "must be at most an hour")
		}
	case p.period < time.Microsecond:
		return bad("Period", p.period, "must be at least 1µs")
	case p.period > specs.MaxPeriod:
		return bad("Period", p.period, fmt.Sprintf("must be at most %s (ten years)", specs.MaxPeriod))
	case p.skew > p.period*10:
		return bad("Skew", p.skew, "is more than ten periods: is the unit right?")
	}
	return nil
}

func (p Policy) checkNames(bad func(string, any, string) *Error) *Error {
	const grammar = "must start with a letter or digit and have at most 64 letters, digits, '.', '_' or '-'"
	if len(p.scopes) > maxScopes {
		return bad("Scopes", len(p.scopes), fmt.Sprintf("names: at most %d", maxScopes))
	}
	for i, s := range p.scopes {
		if !ValidName(s) {
			return bad("Scope", fmt.Sprintf("%q", s), grammar)
		}
		if slices.Contains(p.scopes[:i], s) {
			return bad("Scope", fmt.Sprintf("%q", s), "is named twice")
		}
	}
	if !ValidName(p.Name()) { // after the scopes: a name that follows from them has their mistakes
		return bad("Name", fmt.Sprintf("%q", p.Name()), grammar)
	}
	if slices.ContainsFunc(p.lanes, func(l lane) bool { return l.kept }) && slices.ContainsFunc(p.lanes, func(l lane) bool { return !l.kept }) && p.isRate() {
		return bad("Reserve", len(p.lanes), "and lanes do not go together in one rate: stack two of the same rate, one with lanes and one with parts")
	}
	if p.fair != "" && (len(p.lanes) > 0 || p.percent > 0) {
		return bad("Fair", fmt.Sprintf("%q", p.fair), "does not go with lanes in one policy: stack two of the same rate, one fair and one with lanes")
	}
	if slices.Contains(p.scopes, p.fair) {
		return bad("Fair", fmt.Sprintf("%q", p.fair), "is a scope of the policy: each of its values has a limit of its own and shares it with nobody")
	}
	if p.optional && len(p.scopes) == 0 {
		return bad("Optional", true, "a policy of the whole upstream binds every call: add Per, or leave Optional out")
	}
	return nil
}

func (p Policy) checkRate(bad func(string, any, string) *Error) *Error {
	if p.shape == shapeAtMost && p.burst > p.limit {
		return bad("Burst", p.burst, fmt.Sprintf("must be at most the limit, %d: more could never go in one period", p.limit))
	}
	if p.period.Microseconds() < p.limit {
		return bad("Limit", p.limit, fmt.Sprintf("per %s is more than one call per microsecond, the store's unit of time", p.period))
	}
	s := p.Spec()
	if s.Limit > specs.MaxPeriod.Microseconds()/s.Interval {
		return bad("Burst", s.Limit, fmt.Sprintf("takes more than %s (ten years) to come back", specs.MaxPeriod))
	}
	if p.adaptation != nil {
		return p.adaptation.check(s.Interval)
	}
	return nil
}
