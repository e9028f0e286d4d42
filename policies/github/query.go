package github

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/headway-go/headway/policies/fields"
)

const (
	// maxPage is the most nodes that first and last may request.
	// Source: https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api#node-limit
	maxPage = 100
	// perPoint is how many of GitHub's own requests make a point.
	// Source: https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api#predicting-the-point-value-of-a-query
	perPoint = 100
	// maxRequests is the largest number of requests that a query may take: no query may request more nodes. Source: see maxPage.
	maxRequests = 500_000
	// maxDepth is how deep a query may be nested: one that is deeper is not read. Fragments are counted to this depth.
	maxDepth = 100
)

// A query is the body of a GraphQL request.
type query struct {
	Query     string         `json:"query"`
	Operation string         `json:"operationName"`
	Variables map[string]any `json:"variables"`
}

// queryCosts returns roughly how many points a query costs the primary limit, and whether it is a mutation.
func queryCosts(r *http.Request) (points int64, mutation bool) {
	var q query
	if _, ok := fields.RequestJSON(r, &q); !ok {
		return 1, false
	}
	return q.costs()
}

// costs adds up the requests that it takes to fetch each connection of a query, assuming that every page is full, and divides by 100. A
// query that cannot be read costs 1, the least.
// Source: see perPoint.
func (q *query) costs() (points int64, mutation bool) {
	d := document{rest: q.Query, variables: q.Variables, fragments: make(map[string]*selection), wanted: q.Operation}
	if !d.read() || d.operation == nil {
		return 1, d.mutation
	}
	return max(1, (d.requests(d.operation, 0)+perPoint/2)/perPoint), d.mutation
}

// A selection is a field with its selected fields, or a fragment.
type selection struct {
	spread   string // the name of the fragment that it stands for; "" for none
	page     int64  // how many nodes of a connection are requested; 0 if it is no connection
	of       []*selection
	requests int64 // how many it takes, plus 1; 0 while that is not known
}

// A document is what has been read of a query's text.
type document struct {
	rest      string // not read yet
	variables map[string]any
	fragments map[string]*selection
	wanted    string // the name of the operation to run; "" for the first
	operation *selection
	mutation  bool
}

// requests returns how many requests it takes to fetch a selection once.
func (d *document) requests(s *selection, depth int) int64 {
	if s.requests > 0 {
		return s.requests - 1
	}
	if depth > maxDepth {
		return 0
	}
	s.requests = 1 // a query with a fragment that contains itself is not valid
	var n int64
	if s.spread != "" {
		if f := d.fragments[s.spread]; f != nil {
			n = d.requests(f, depth+1)
		}
	}
	for _, one := range s.of {
		n = min(maxRequests, n+d.requests(one, depth+1))
	}
	if s.page > 0 {
		n = min(maxRequests, 1+s.page*n)
	}
	s.requests = n + 1
	return n
}

// read reads the definitions of a document; false if the text is not a document.
func (d *document) read() bool {
	for {
		word := d.next()
		switch word {
		case "":
			return true
		case "{", "query", "mutation", "subscription", "fragment":
		default:
			return false
		}
		name := ""
		for t := word; t != "{"; {
			if t = d.next(); t == "" || t == "(" && !d.defaults() {
				return false
			}
			if name == "" && isName(t) {
				name = t
			}
		}
		s, ok := d.selections(0)
		switch {
		case !ok:
			return false
		case word == "fragment":
			d.fragments[name] = s
		case d.operation == nil, name != "" && name == d.wanted:
			d.operation, d.mutation = s, word == "mutation"
		}
	}
}

// defaults reads the definitions of variables, after their parenthesis, and keeps the defaults that are whole numbers.
func (d *document) defaults() bool {
	var name, last string
	for depth := 1; depth > 0; {
		t := d.next()
		switch t {
		case "":
			return false
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
		switch last {
		case "$":
			name = t
		case "=":
			if n, err := strconv.ParseInt(t, 10, 64); err == nil && d.variables[name] == nil {
				if d.variables == nil {
					d.variables = make(map[string]any)
				}
				d.variables[name] = float64(n)
			}
		}
		last = t
	}
	return true
}

// selections reads the selected fields after a brace, up to the one that closes it.
func (d *document) selections(depth int) (*selection, bool) {
	if depth > maxDepth {
		return nil, false
	}
	all := new(selection)
	last := all // the field that arguments and braces belong to
	for {
		t := d.next()
		switch {
		case t == "":
			return nil, false
		case t == "}":
			return all, true
		case t == "@": // a directive, whose arguments do not request nodes
			d.next()
		case t == "{":
			s, ok := d.selections(depth + 1)
			if !ok {
				return nil, false
			}
			last.of = append(last.of, s)
		case t == "(":
			page, ok := d.page()
			if !ok {
				return nil, false
			}
			last.page = max(last.page, page)
		case t == "...", isName(t): // an alias comes before its field, so the field counts
			last = new(selection)
			all.of = append(all.of, last)
			if t == "..." {
				last.spread = d.spread()
			}
		}
	}
}

// spread returns the name of the fragment after three dots; "" if it has none.
func (d *document) spread() string {
	rest := d.rest
	switch name := d.next(); {
	case name == "on":
		d.next() // a type
	case isName(name):
		return name
	default:
		d.rest = rest
	}
	return ""
}

// page reads arguments after a parenthesis, and returns how many nodes they request: first or last, at most maxPage; 0 if neither.
func (d *document) page() (int64, bool) {
	var page int64
	var before, last string // the last two tokens at this depth
	for depth := 1; depth > 0; {
		t := d.next()
		switch t {
		case "":
			return 0, false
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
		if depth == 1 && last == ":" && (before == "first" || before == "last") {
			page = max(page, d.number(t))
		}
		before, last = last, t
	}
	return page, true
}

// number returns the value of a token, or of the variable whose name comes next, as a page: from 0 to maxPage.
func (d *document) number(t string) int64 {
	if t == "$" {
		n, _ := d.variables[d.next()].(float64)
		return int64(min(max(0, n), maxPage))
	}
	n, _ := strconv.ParseInt(t, 10, 64)
	return min(max(0, n), maxPage)
}

// next returns the next token, and " for a string; "" at the end.
func (d *document) next() string {
	for {
		d.rest = strings.TrimLeft(d.rest, " \t\r\n,\ufeff")
		if !strings.HasPrefix(d.rest, "#") {
			break
		}
		_, d.rest, _ = strings.Cut(d.rest, "\n")
	}
	n := 1
	switch {
	case d.rest == "":
		return ""
	case strings.HasPrefix(d.rest, `"""`):
		return d.skip(3, `"""`)
	case d.rest[0] == '"':
		return d.skip(1, `"`)
	case strings.HasPrefix(d.rest, "..."):
		n = 3
	case isWord(d.rest[0]):
		for n < len(d.rest) && isWord(d.rest[n]) {
			n++
		}
	}
	t := d.rest[:n]
	d.rest = d.rest[n:]
	return t
}

// skip skips a string, from its opening quotes to the closing ones, unless these are escaped.
func (d *document) skip(open int, quotes string) string {
	for i := open; i < len(d.rest); i++ {
		if d.rest[i] == '\\' {
			i++
		} else if strings.HasPrefix(d.rest[i:], quotes) {
			d.rest = d.rest[i+len(quotes):]
			return `"`
		}
	}
	d.rest = ""
	return ""
}

// isWord reports whether a byte is part of a name or a number.
func isWord(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// isName reports whether a token is a name.
func isName(t string) bool {
	return t != "" && isWord(t[0]) && t[0] != '-' && (t[0] < '0' || t[0] > '9')
}
