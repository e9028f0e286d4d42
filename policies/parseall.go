package policies

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of ParseAll's text.
const (
	maxTexts    = 256 << 10 // bytes
	maxPolicies = 1000
	maxMistakes = 10 // reported for one text
)

// ParseAll reads several policies from one text, such as an environment variable:
//
//	peak: 25/s, burst 10; 100000 daily (UTC)
//
// It reads each as [Parse] does. Semicolons and ends of lines separate them, blank ones are skipped, and a '#' begins a comment. A text
// without policies is an empty list. ParseAll does not compare the policies: pacer.New checks that their names differ.
//
// It returns an [*Error] for a text of more than 256 KiB or 1,000 policies, and otherwise the errors of the first ten policies that [Parse]
// cannot read, joined: their Number is the policy's.
func ParseAll(text string) ([]Policy, error) {
	if len(text) > maxTexts {
		return nil, &Error{Field: fieldText, Value: fmt.Sprintf("%d bytes long", len(text)), Reason: fmt.Sprintf("must have at most %d", maxTexts)}
	}
	var list []Policy
	var mistakes []error
	number := 0
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for one := range strings.SplitSeq(line, ";") {
			if one = strings.TrimSpace(one); one == "" {
				continue
			}
			if number++; number > maxPolicies {
				return nil, &Error{Field: fieldText, Value: fmt.Sprintf("more than %d policies", maxPolicies), Reason: "must have fewer: is this the right text?"}
			}
			p, err := Parse(one)
			if e, ok := errors.AsType[*Error](err); ok {
				e.Number = number
			}
			if err != nil {
				mistakes = append(mistakes, err)
			}
			list = append(list, p)
		}
		if len(mistakes) >= maxMistakes {
			break
		}
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes[:min(len(mistakes), maxMistakes)]...)
	}
	return list, nil
}
