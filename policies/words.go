package policies

import (
	"fmt"
	"strconv"
	"strings"
	"time"
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

// limitItem returns the first item of a text: "25/s" becomes 25 per s.
func limitItem(text string) item {
	limit, zone, inZone := strings.Cut(text, "(") // whose name may have a slash
	if limit = strings.Replace(limit, "/", " per ", 1); inZone {
		limit += "(" + zone
	}
	return item{text, newItem(limit).words}
}

// words are the words of an item that its form leaves open, read from first to last. The first wrong one sets the error.
type words struct {
	item string
	open []string
	err  *Error
}

// match returns the open words of an item, and whether the item has the form.
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
		case want != rest[0]:
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
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		w.fail(quote(s) + " is not a whole number, or it is far too large: write digits, such as 25 or 100000")
	}
	return n
}

// duration reads a duration. A second, minute or hour may have no number.
func (w *words) duration() time.Duration {
	s := w.rest()
	switch s {
	case "s", "second":
		return time.Second
	case "m", "minute":
		return time.Minute
	case "h", "hour":
		return time.Hour
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		w.fail(quote(s) + " is not a duration: write one such as 250ms, 10s, 1m30s or 24h, or a second, minute or hour, and a comma before settings; " +
			`for days and months of a calendar, "100000 daily (UTC)" or "1000000 monthly (UTC)"`)
	}
	return d
}

// zone reads a time zone in parentheses.
func (w *words) zone() *time.Location {
	name := w.inParentheses(w.rest())
	switch name {
	case "":
		w.fail(`name the time zone in parentheses, such as "100000 daily (UTC)" or "100000 daily (Europe/Berlin)"`)
		return nil
	case "Local":
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
		if !ValidName(scopes[i]) {
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
func notZero[T int64 | time.Duration](w *words, v T) T {
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

// notUnderstood returns an error with examples of valid text.
func notUnderstood(one item, what string, forms []form) *Error {
	examples := make([]string, 0, len(forms))
	for _, f := range forms {
		examples = append(examples, fmt.Sprintf("%q", f.example))
	}
	return &Error{Field: fieldText, Value: quote(one.text), Reason: "not understood: " + what + ", such as " + strings.Join(examples, ", ")}
}

// quote quotes a text, and shortens a long one.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
