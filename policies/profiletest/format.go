package profiletest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/headway-go/headway/policies"
)

// An exchange is a request and its response.
type exchange struct {
	method    string
	target    string
	sent      http.Header
	requested string // body of the request

	status int
	header http.Header
	body   string
}

// A file is an exchange and what a profile reads from it.
type file struct {
	exchange

	head    string // the file up to its reading
	reading []string
}

// sections of a file, in their order.
const (
	sectionRequest  = "request"
	sectionResponse = "response"
	sectionReading  = "reading"
)

var (
	marker = regexp.MustCompile(`^-- (.*) --$`)
	token  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110 section 5.6.2
	status = regexp.MustCompile(`^[1-9][0-9][0-9]$`)
)

// errNoReading reports that a file has everything but its reading.
var errNoReading = errors.New(`no "-- reading --" section: run the test with HEADWAY_UPDATE=1, and read what it wrote`)

// parse reads a file. It returns an error for anything that it does not understand; with errNoReading, the file is usable.
func parse(text string) (*file, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	names := []string{sectionRequest, sectionResponse, sectionReading}
	found := map[string]block{}
	section, head := "", len(text)
	pos := 0
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		m := marker.FindStringSubmatch(line)
		switch {
		case m != nil && len(found) < len(names) && m[1] == names[len(found)]:
			section = m[1]
			found[section] = block{first: i + 2}
			if section == sectionReading {
				head = pos
			}
		case m != nil:
			return nil, fmt.Errorf("line %d: section %q: a file has the sections request, response and reading, once and in this order", i+1, m[1])
		case section != "":
			b := found[section]
			b.lines = append(b.lines, line)
			found[section] = b
		case line != "" && !strings.HasPrefix(line, "#"):
			return nil, fmt.Errorf("line %d: %q: only comments stand before the first section", i+1, line)
		}
		pos += len(line) + 1
	}
	for _, name := range names[:2] {
		if _, ok := found[name]; !ok {
			return nil, fmt.Errorf("no \"-- %s --\" section", name)
		}
	}
	f := &file{head: text[:head]}
	if err := f.parseRequest(found[sectionRequest]); err != nil {
		return nil, err
	}
	if err := f.parseResponse(found[sectionResponse]); err != nil {
		return nil, err
	}
	b, ok := found[sectionReading]
	if !ok {
		return f, errNoReading
	}
	return f, f.parseReading(b)
}

// block is the lines of a section.
type block struct {
	first int // number of the first line
	lines []string
}

func (b block) fail(i int, reason string) error {
	if i >= len(b.lines) {
		return fmt.Errorf("line %d: %s", b.first+i, reason)
	}
	return fmt.Errorf("line %d: %q: %s", b.first+i, b.lines[i], reason)
}

func (f *file) parseRequest(b block) error {
	const want = "a request starts with method and absolute URL"
	if len(b.lines) == 0 {
		return b.fail(0, want)
	}
	method, target, _ := strings.Cut(b.lines[0], " ")
	u, err := url.Parse(target)
	if !token.MatchString(method) || err != nil || u.Scheme == "" || u.Host == "" || strings.ContainsAny(target, " \t") {
		return b.fail(0, want)
	}
	f.method, f.target = method, target
	f.sent, f.requested, err = b.message()
	return err
}

func (f *file) parseResponse(b block) error {
	if len(b.lines) == 0 || !status.MatchString(b.lines[0]) {
		return b.fail(0, "a response starts with its status, three digits")
	}
	f.status, _ = strconv.Atoi(b.lines[0])
	var err error
	f.header, f.body, err = b.message()
	return err
}

// message reads the header fields and the body that follow the first line.
func (b block) message() (http.Header, string, error) {
	h := http.Header{}
	for i := 1; i < len(b.lines); i++ {
		if b.lines[i] == "" {
			return h, strings.Join(b.lines[i+1:], "\n"), nil
		}
		name, value, ok := strings.Cut(b.lines[i], ":")
		if !ok || !token.MatchString(name) {
			return nil, "", b.fail(i, "not a header field; a blank line parts header and body")
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, "", nil
}

func (f *file) parseReading(b block) error {
	for len(b.lines) > 0 && b.lines[len(b.lines)-1] == "" {
		b.lines = b.lines[:len(b.lines)-1]
	}
	for i, line := range b.lines {
		word, _, _ := strings.Cut(line, " ")
		if !slices.Contains([]string{"scope", "cost", "verdict", "feedback", "settle"}, word) {
			return b.fail(i, "a reading has lines of scope, cost, verdict, feedback and settle")
		}
	}
	f.reading = b.lines
	return nil
}

// lines returns the lines of a reading.
func (o *outcome) lines() []string {
	var lines []string
	for _, s := range o.scopes {
		if s[1] != "" {
			lines = append(lines, "scope "+s[0]+"="+quote(s[1]))
		}
	}
	lines = appendCosts(lines, "cost", o.costs)
	lines = append(lines, "verdict "+verdict(o.reading.Verdict))
	for i := range o.reading.Feedback {
		lines = append(lines, printFeedback(&o.reading.Feedback[i]))
	}
	return appendCosts(lines, "settle", o.settled)
}

func appendCosts(lines []string, word string, costs []policies.Cost) []string {
	for _, c := range costs {
		name := c.Policy
		if name == "" {
			name = "*"
		}
		line := word + " " + quote(name) + "=" + strconv.FormatInt(c.N, 10)
		if l := c.Learned; l != (policies.Learned{}) {
			line += fmt.Sprintf(" known=%d times=%d most=%d", l.Known, l.Times, l.Most)
		}
		lines = append(lines, line)
	}
	return lines
}

func verdict(v policies.Verdict) string {
	switch v {
	case policies.Unjudged:
		return "unjudged"
	case policies.Limited:
		return "limited"
	case policies.Spent:
		return "spent"
	}
	return fmt.Sprintf("invalid(%d)", v)
}

func otherwise(o policies.Otherwise) string {
	switch o {
	case policies.Nobody:
		return "nobody"
	case policies.Everyone:
		return "everyone"
	case policies.TheCall:
		return "thecall"
	case policies.Unknown:
		return "unknown"
	}
	return fmt.Sprintf("invalid(%d)", o)
}

func printFeedback(f *policies.Feedback) string {
	words := []string{"feedback"}
	count := func(name string, c policies.Count) {
		if n, reported := c.Value(); reported {
			words = append(words, name+"="+strconv.FormatInt(n, 10))
		}
	}
	span := func(name string, d time.Duration) {
		if d != 0 {
			words = append(words, name+"="+d.String())
		}
	}
	if len(f.Policies) > 0 {
		words = append(words, "policies="+quote(strings.Join(f.Policies, ",")), "otherwise="+otherwise(f.Otherwise))
	}
	if f.Refused {
		words = append(words, "refused")
	}
	if f.Certain {
		words = append(words, "certain")
	}
	span("wait", f.Wait)
	count("limit", f.Limit)
	span("window", f.Window)
	count("remaining", f.Remaining)
	count("used", f.Used)
	span("reset", f.Reset)
	if f.Source != "" {
		words = append(words, "source="+quote(f.Source))
	}
	return strings.Join(words, " ")
}

// quote returns a value as it is, if it cannot be mistaken for something else.
func quote(s string) string {
	plain := utf8.ValidString(s) && s == strings.TrimSpace(s) && !strings.HasPrefix(s, `"`) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
	if plain {
		return s
	}
	return strconv.Quote(s)
}

// compare shows what a file wants beside what the profile reads, line by line; "" if both are the same.
func compare(want, got []string) string {
	if slices.Equal(want, got) {
		return ""
	}
	// common[i][j] is how many lines want[i:] and got[j:] have in common, in this order.
	common := make([][]int, len(want)+1)
	common[len(want)] = make([]int, len(got)+1)
	for i := len(want) - 1; i >= 0; i-- {
		common[i] = make([]int, len(got)+1)
		for j := len(got) - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if want[i] == got[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var b strings.Builder
	line := func(mark, s string) { fmt.Fprintf(&b, "\n    %-4s %s", mark, s) }
	for i, j := 0, 0; i < len(want) || j < len(got); {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			line("", want[i])
			i, j = i+1, j+1
		case j == len(got) || i < len(want) && common[i+1][j] >= common[i][j+1]:
			line("want", want[i])
			i++
		default:
			line("got", got[j])
			j++
		}
	}
	return b.String()
}
