package policies

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// An item is the text between two commas of a policy's text.
type item struct {
	text  string
	words []string
}

func newItem(text string) item {
	text = strings.TrimSpace(text)
	return item{text, strings.Fields(strings.ReplaceAll(strings.ReplaceAll(text, "%", " % "), "(", " ("))}
}

// limitItem returns the first item of a text: "25/s" is 25 per s, "25 rps" as well, and "25 requests/s".
func limitItem(text string) item {
	limit, zone, inZone := strings.Cut(text, "(") // whose name may have a slash
	if limit = strings.Replace(limit, "/", " per ", 1); inZone {
		limit += "(" + zone
	}
	one := newItem(limit)
	if len(one.words) < 2 {
		return one
	}
	switch unit := strings.ToLower(one.words[1]); unit {
	case "rps", "qps", "rpm":
		per := "second"
		if unit == "rpm" {
			per = "minute"
		}
		one.words = slices.Replace(one.words, 1, 2, "per", per)
	case "request", "requests", "req", "reqs", "call", "calls":
		if len(one.words) > 2 && strings.EqualFold(one.words[2], "per") {
			one.words = slices.Delete(one.words, 1, 2)
		}
	default:
		return one
	}
	one.text = strings.Join(one.words, " ")
	return one
}

// apart splits an item in which the commas before settings were left out. A word begins no setting if it is a name, such as the second one
// of "per burst", or if it belongs to a limit, as in "25 per 1s". first means that the item is a limit.
func apart(one item, first bool) []item {
	var items []item
	depth, begin, isName := 0, 0, false
	cut := func(i int) {
		if i > begin {
			part := one.words[begin:i]
			items = append(items, item{strings.Join(part, " "), part})
			begin = i
		}
	}
	for i, word := range one.words {
		inParentheses := depth > 0
		depth += strings.Count(word, "(") - strings.Count(word, ")")
		if inParentheses || isName {
			isName = strings.HasSuffix(word, "+") || nextIs(one.words, i, "+")
			continue
		}
		if (!first || i > 1) && begins(one.words[i:]) { // "N per" is a limit
			cut(i)
		}
		limit := first && begin == 0
		isName = word == "+" || !limit && slices.ContainsFunc([]string{"per", "by", "lane"}, func(s string) bool { return strings.EqualFold(s, word) })
	}
	if begin == 0 {
		return []item{one}
	}
	cut(len(one.words))
	return items
}

// nextIs reports whether the word after the i-th begins with s.
func nextIs(words []string, i int, s string) bool {
	return i+1 < len(words) && strings.HasPrefix(words[i+1], s)
}

// begins reports whether a setting begins with these words.
func begins(words []string) bool {
	switch strings.ToLower(words[0]) {
	case "burst", "skew", "lease", "fair", "adaptive", "per", "optional", "observed":
		return true
	case "in":
		return len(words) > 2 && strings.EqualFold(words[2], "buckets")
	}
	return nextIs(words, 0, "%")
}

// words are the words of an item that its form leaves open, read from first to last. The first one that is not as expected sets the error.
type words struct {
	item string
	open []string
	err  *Error
}

// match returns the words of an item that the form leaves open, and whether the item has the form.
func (f form) match(one item) (*words, bool) {
	rest, open := one.words, []string(nil)
	for want := range strings.FieldsSeq(f.words) {
		switch {
		case want == "*":
			return &words{item: one.text, open: append(open, strings.Join(rest, " "))}, true
		case len(rest) == 0:
			return nil, false
		case want == "N":
			open = append(open, rest[0])
		case !strings.EqualFold(want, rest[0]):
			return nil, false
		}
		rest = rest[1:]
	}
	return &words{item: one.text, open: open}, len(rest) == 0
}

// fail keeps the first error. The item is the text at fault.
func (w *words) fail(reason string) {
	if w.err == nil {
		w.err = &Error{Field: fieldText, Value: quote(w.item), Reason: reason}
	}
}

// rest returns the next open word as it is.
func (w *words) rest() string {
	s := w.open[0]
	w.open = w.open[1:]
	return s
}

func (w *words) number() int64 {
	s := w.rest()
	n, err := strconv.ParseInt(digits(s), 10, 64)
	if err != nil {
		w.fail(quote(s) + " is not a whole number, or it is far too large: write digits, such as 25 or 100_000")
	}
	return n
}

func (w *words) percent() int {
	s := w.rest()
	n, err := strconv.Atoi(digits(s))
	if err != nil {
		w.fail(quote(s) + " is not a whole percentage")
	}
	return n
}

// digits leaves out the underscores that stand between two digits.
func digits(s string) string {
	if strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return s
	}
	return strings.ReplaceAll(s, "_", "")
}

func (w *words) duration() time.Duration {
	s := w.rest()
	d, err := time.ParseDuration(goDuration(s))
	if err != nil {
		w.fail(quote(s) + " is not a duration: write one such as 250ms, 10s, 1m30s or 24h, or a second, minute or hour; " +
			`for days and months of a calendar, "100000 daily (UTC)" or "1000000 monthly (UTC)"`)
	}
	return d
}

// goDuration writes a duration in words as Go does: "10 seconds" is 10s, and "minute" is 1m.
func goDuration(s string) string {
	s = strings.ReplaceAll(s, " ", "")
	at := strings.IndexFunc(s, unicode.IsLetter)
	if at < 0 {
		return s
	}
	unit := s[at:]
	switch strings.TrimSuffix(strings.ToLower(unit), "s") {
	case "hour":
		unit = "h"
	case "minute", "min":
		unit = "m"
	case "second", "sec":
		unit = "s"
	case "millisecond":
		unit = "ms"
	}
	if at == 0 {
		return "1" + unit
	}
	return s[:at] + unit
}

// zone reads a time zone in parentheses.
func (w *words) zone() *time.Location {
	name := w.inParentheses(w.rest())
	switch {
	case name == "":
		w.fail(`name the time zone in parentheses, such as "100000 daily (UTC)" or "100000 daily (Europe/Berlin)"`)
		return nil
	case strings.EqualFold(name, "UTC"):
		return time.UTC
	case strings.EqualFold(name, "Local"):
		w.fail(`"Local" differs from machine to machine: name a time zone, such as (Europe/Berlin)`)
		return nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		w.fail(quote(name) + " is not a time zone that this machine knows: name one of the IANA database, such as (UTC) or (Europe/Berlin). " +
			"A zone made by time.FixedZone has no name there; (Etc/GMT-1) is one hour east of UTC. Machines without the database need time/tzdata")
	}
	return loc
}

// scopes reads names with plus signs between them.
func (w *words) scopes() []string {
	scopes := strings.Split(w.rest(), "+")
	for i := range scopes {
		if scopes[i] = strings.TrimSpace(scopes[i]); !ValidName(scopes[i]) {
			w.fail(quote(scopes[i]) + " is not a valid scope name: write a letter or digit, then at most 63 letters, digits, '.', '_' or '-'; " +
				"join several with plus signs, such as user+ticket")
		}
	}
	return scopes
}

// inParentheses returns the text between the parentheses around s; "" if there is none.
func (w *words) inParentheses(s string) string {
	inner, opens := strings.CutPrefix(s, "(")
	inner, closes := strings.CutSuffix(inner, ")")
	if s != "" && (!opens || !closes) {
		w.fail(quote(s) + " must be in parentheses")
	}
	return strings.TrimSpace(inner)
}

// notZero returns v, which must not be 0.
func notZero[T int | time.Duration](w *words, v T) T {
	if v == 0 {
		w.fail("must be more than 0: for the default, leave it out")
	}
	return v
}

// split splits a text at the commas that are not in parentheses.
func split(text string) []item {
	var items []item
	depth, begin := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				items = append(items, newItem(text[begin:i]))
				begin = i + 1
			}
		}
	}
	return append(items, newItem(text[begin:]))
}

// notUnderstood returns an error with examples of what would have been understood.
func notUnderstood(one item, what string, forms []form) *Error {
	examples := make([]string, 0, len(forms))
	for _, f := range forms {
		examples = append(examples, fmt.Sprintf("%q", f.example))
	}
	return &Error{Field: fieldText, Value: quote(one.text), Reason: "not understood: " + what + ", such as " + strings.Join(examples, ", ")}
}

// quote quotes a text, and cuts a long one short.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
