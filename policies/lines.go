package policies

import (
	"fmt"
	"strconv"
	"strings"
)

// overrideMark begins a line with the numbers of one key: for "acme": 50 per 1s.
const overrideMark = "for "

// Lines returns the policy as text with its overrides: the line that [Policy.MarshalText] returns without them, and then a line for each
// [Policy.Override], in order of their keys, with the quoted value of each scope:
//
//	tenant: 5 per 1s, per tenant
//	for "acme": 50 per 1s, burst 10
//
// It returns an [*Error] where MarshalText does, and for a policy with [Policy.OverrideBy], since no text can hold a function.
func (p Policy) Lines() ([]string, error) {
	own := p
	own.overrides = nil
	text, err := own.MarshalText()
	if err != nil || p.overrides == nil {
		return []string{string(text)}, err
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.overrides.by != nil {
		return nil, &Error{
			Policy: p.Name(), Field: "OverrideBy", Value: "given",
			Reason: "a text cannot hold a function: use Override, or leave the policy to the code of each process",
		}
	}
	lines := []string{string(text)}
	for values, with := range p.Overrides() {
		text, err := with.MarshalText()
		if err != nil {
			return nil, fmt.Errorf("the Override of %s for %s: %w", p.Name(), shown(values), err)
		}
		_, numbers, _ := strings.Cut(string(text), ": ") // without the name that follows from them
		quoted := make([]string, 0, len(values))
		for _, v := range values {
			quoted = append(quoted, strconv.Quote(v))
		}
		lines = append(lines, overrideMark+strings.Join(quoted, ", ")+": "+numbers)
	}
	return lines, nil
}

// ParseLines reads policies as [Policy.Lines] writes them: each as [Parse] does, and after it the lines of its overrides. The error of a
// line begins with the line.
func ParseLines(lines ...string) ([]Policy, error) {
	list := []Policy{}
	for _, line := range lines {
		values, numbers, isOverride := cutOverride(line)
		one, err := Parse(numbers)
		switch {
		case err != nil:
		case !isOverride:
			list = append(list, one)
		case len(list) == 0:
			err = &Error{Field: "Override", Value: "for " + shown(values), Reason: "has no policy: write it behind that"}
		default:
			last := &list[len(list)-1]
			*last = last.Override(one, values...)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	return list, nil
}

// cutOverride returns the scope values and the numbers in the line of an override; false and the line if it is not an override.
func cutOverride(line string) (values []string, numbers string, ok bool) {
	rest, ok := strings.CutPrefix(line, overrideMark)
	for ok {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		value, _ := strconv.Unquote(quoted) // QuotedPrefix has checked it
		values, rest = append(values, value), rest[len(quoted):]
		if numbers, ok = strings.CutPrefix(rest, ":"); ok {
			return values, strings.TrimSpace(numbers), true
		}
		rest, ok = strings.CutPrefix(rest, ",")
		rest = strings.TrimSpace(rest)
	}
	return nil, line, false
}
