package fields

import (
	"iter"
	"strings"
)

// maxNumber is the largest count that is believed: 15 digits, as in structured fields (RFC 9651 section 3.3.1).
const maxNumber = 999_999_999_999_999

// Number reads a count: digits alone, at most 15 of them.
func Number(s string) (int64, bool) {
	s = strings.TrimSpace(s)
	if len(s) > 15 || !digits(s) {
		return 0, false
	}
	var n int64
	for _, c := range s {
		n = n*10 + int64(c-'0')
	}
	return n, n <= maxNumber
}

// Fraction reads "used/limit", such as Shopify's "32/40" and Salesforce's "10018/100000".
func Fraction(s string) (used, limit int64, ok bool) {
	a, b, found := strings.Cut(s, "/")
	used, first := Number(a)
	limit, second := Number(b)
	if !found || !first || !second {
		return 0, 0, false
	}
	return used, limit, true
}

// maxPairs bounds how many pairs of one field are looked at.
const maxPairs = 32

// Pairs walks through "key=value" pairs that a separator parts, such as Zendesk's "total=100; remaining=99; resets=41".
// Space around keys and values is not theirs, and keys are made lower-case. What is not a pair is left out.
func Pairs(s, separator string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		n := 0
		for part := range strings.SplitSeq(s, separator) {
			if n++; n > maxPairs {
				return
			}
			key, value, ok := strings.Cut(part, "=")
			if !ok {
				continue
			}
			if !yield(strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)) {
				return
			}
		}
	}
}
