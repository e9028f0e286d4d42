package fields

import (
	"iter"
	"strings"
)

// maxNumber is the largest count that is accepted: 15 digits, as in structured fields (RFC 9651 section 3.3.1).
const maxNumber = 999_999_999_999_999

// Number reads a count: only digits, at most 15 of them.
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

// maxPairs is how many pairs of one field are read.
const maxPairs = 32

// Pairs iterates over "key=value" pairs with a separator between them, such as Zendesk's "total=100; remaining=99; resets=41". It removes
// space around keys and values, turns keys into lower case, and skips what is not a pair.
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
