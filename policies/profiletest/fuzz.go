package profiletest

import (
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headway-go/headway/policies"
)

// Fuzz fuzzes a profile around the files dir/*.txt: with URLs, statuses, header fields and bodies that no vendor sends. On any input, the
// profile must not panic, or break a rule of [policies.Profile]. The corpus starts with the files, so a file for each form that the profile
// reads helps it to find more. Run it with
//
//	go test -fuzz FuzzRead ./acme
//
// A plain go test runs the files only.
func Fuzz(f *testing.F, p policies.Profile, dir string) {
	f.Helper()
	all := paths(f, dir)
	files := make([]*file, 0, len(all))
	for i, path := range all {
		text, err := os.ReadFile(path) //nolint:gosec // the caller's own test data
		if err != nil {
			f.Fatal(err)
		}
		one, err := parse(string(text))
		if one == nil {
			f.Fatalf("%s: %v", path, err)
		}
		files = append(files, one)
		h := one.header.Clone()
		age, date := h.Get("Age"), h.Get("Date")
		h.Del("Age")
		h.Del("Date")
		f.Add(uint(i), one.target, one.status, printHeader(h), age, date, one.body)
		f.Add(uint(i), one.target, one.status, printHeader(h), "1", "Tue, 10 Nov 2026 11:59:00 GMT", one.body)
	}
	f.Fuzz(func(t *testing.T, i uint, target string, status int, header, age, date, body string) {
		one := files[i%uint(len(files))]
		x := &exchange{
			method: one.method, target: one.target, sent: one.sent, requested: one.requested,
			status: int(uint(status) % 1000), header: parseHeader(header), body: body,
		}
		if u, err := url.Parse(target); err == nil && u.Scheme != "" && u.Host != "" {
			x.target = target
		}
		if age != "" {
			x.header.Set("Age", clean(age))
		}
		if date != "" {
			x.header.Set("Date", clean(date))
		}
		for _, failure := range fuzzed(p, x) {
			t.Errorf("%s %s, %d, %q, %q: %s", x.method, x.target, x.status, x.header, x.body, failure)
		}
	})
}

// fuzzed returns which rules a profile breaks for an exchange, in all its variants.
func fuzzed(p policies.Profile, x *exchange) []string {
	var failures []string
	for _, v := range []variant{{}, {cut: true}, {stream: true}} {
		o := play(p, x, v)
		failures = append(failures, o.broken()...)
		if diff := compare(o.lines(), play(p, x, v).lines()); diff != "" {
			failures = append(failures, "the second time it reads something else (rule: same input, same output)"+diff)
		}
	}
	return failures
}

// printHeader returns a block of header fields, sorted by name.
func printHeader(h http.Header) string {
	var b strings.Builder
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range h[name] {
			b.WriteString(name + ": " + v + "\n")
		}
	}
	return b.String()
}

// parseHeader reads a block of header fields as net/http does: it leaves out what net/http would not accept.
func parseHeader(block string) http.Header {
	h := http.Header{}
	for line := range strings.SplitSeq(block, "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && token.MatchString(name) {
			h.Add(name, clean(value))
		}
	}
	return h
}

// clean leaves out what no header field can hold: RFC 9110 section 5.5.
func clean(value string) string {
	return strings.Trim(strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(value), " \t")
}
