package github_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/github"
)

// queryCosts returns what a query costs, and a mutation.
func queryCosts(t testing.TB, body any) (points, secondary int64) {
	t.Helper()
	data, err := json.Marshal(body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.github.com/graphql", strings.NewReader(string(data)))
	require.NoError(t, err)
	costs := github.Profile.Costs(req)
	require.Len(t, costs, 2)
	require.Equal(t, []string{github.PolicyGraphQL, github.PolicyGraphQLPoints}, []string{costs[0].Policy, costs[1].Policy})
	return costs[0].N, costs[1].N
}

func TestWhatQueriesCost(t *testing.T) {
	t.Parallel()
	type variables = map[string]any
	for name, c := range map[string]struct {
		query     string
		variables variables
		operation string
		points    int64
		mutation  bool
	}{
		// https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api#predicting-the-point-value-of-a-query
		"the documented example, of 5,101 requests": {
			query: `query { viewer { login repositories(first: 100) { edges { node { id
				issues(first: 50) { edges { node { id labels(first: 60) { edges { node { id name } } } } } } } } } } }`,
			points: 51,
		},
		"the same with variables, aliases, comments and strings": {
			query: `# query { a(first: 100) { b(first: 100) { c(first: 100) } } }
				query Q($repos: Int!, $issues: Int = 50, $more: [In!] = [{first: 7}], $text: String = "(") @x(first: 3) { viewer {
					all: repositories(orderBy: {field: NAME, first: 9}, last: $repos, after: "}{(first: 9") @include(if: $yes) { nodes {
						...Issues
						... @skip(if: false) { id }
						... on Repository { name(text: """a " } \""" {""") }
			} } } } fragment Issues on Repository { issues(filterBy: {first: 100}, first: $issues) { nodes { labels(first: 60) { nodes { name } } } } }`,
			variables: variables{"repos": 100}, points: 51,
		},
		"a variable goes before its default": {
			query: `query($n: Int = 1) { a(first: $n) { b(first: 1) { c(first: 100) } } }`, variables: variables{"n": 100}, points: 2,
		},
		"no page":      {query: `{ viewer { login } rateLimit { cost } }`, points: 1},
		"one page":     {query: `{ viewer { repositories(first: 100) { nodes { id } } } }`, points: 1},
		"149 requests": {query: `{ a(first: 74) { b(first: 1) } c(first: 73) { d(first: 1) } }`, points: 1},
		"150 requests": {query: `{ a(first: 74) { b(first: 1) } c(first: 74) { d(first: 1) } }`, points: 2},
		"a mutation":   {query: `mutation M { addStar(input: {starrableId: "x"}) { clientMutationId } }`, points: 1, mutation: true},
		"the operation that is named": {
			query:     `query A { a(first: 100) { b(first: 100) { c(first: 1) } } } mutation B { b } query C { c }`,
			operation: "B", points: 1, mutation: true,
		},
		"the first, if none is named": {
			query: `query A { a(first: 100) { b(first: 100) { c(first: 1) } } } mutation B { b }`, points: 101,
		},
		"more than GitHub admits":    {query: `{ a(first: 9999) { b(last: 1e9) { c(first: 99999999999999999999) } } }`, points: 1},
		"pages of less than nothing": {query: `{ a(first: -5) { b(first: 0) { c(last: $n) } } }`, variables: variables{"n": -1e300}, points: 1},
		"a page that is no number":   {query: `{ a(first: $n) { b(first: "5") { c(first: $m) } } }`, variables: variables{"n": "5"}, points: 1},
		"the most":                   {query: `{ a(first: 100) { b(first: 100) { c(first: 100) { d(first: 100) { e(first: 100) } } } } }`, points: 5000},
		"deeper than is read":        {query: strings.Repeat("{ a(first: 100) ", 102) + strings.Repeat("}", 102), points: 1},
		"fragments in a circle":      {query: `{ a(first: 100) { ...F } } fragment F on A { b(first: 100) { ...G } } fragment G on A { ...F c(first: 1) }`, points: 101},
		"no fragment of that name":   {query: `{ a(first: 100) { ...F } }`, points: 1},
		"cut":                        {query: `query Q($a: Int) { a(first: 100) { b(first: 100) { c(first: 100)`, points: 1},
		"cut in a string":            {query: `{ a(x: "`, points: 1},
		"nothing":                    {query: ``, points: 1},
		"no query":                   {query: `select * from repositories`, points: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			points, secondary := queryCosts(t, variables{"query": c.query, "variables": c.variables, "operationName": c.operation})
			require.Equal(t, c.points, points)
			require.Equal(t, c.mutation, secondary == 5)
		})
	}
}

// No query takes for ever, or a deep stack: fragments that double their content, braces without end.
func TestHostileQueries(t *testing.T) {
	t.Parallel()
	var doubling strings.Builder
	doubling.WriteString(`{ ...F0 }`)
	for i := range 2000 {
		fmt.Fprintf(&doubling, ` fragment F%d on A { ...F%d ...F%d a(first: 100) { ...F%d } }`, i, i+1, i+1, i+1)
	}
	for name, q := range map[string]string{
		"doubling": doubling.String(),
		"deep":     "{" + strings.Repeat("a(first:100){", 15_000) + strings.Repeat("}", 15_001),
		"open":     strings.Repeat("{", 200_000),
		"brackets": "{a(" + strings.Repeat("[", 200_000),
		"quotes":   "{a" + strings.Repeat(`"""`, 60_000),
		"comments": "{a" + strings.Repeat("#\n", 60_000),
	} {
		points, _ := queryCosts(t, map[string]any{"query": q})
		require.Positive(t, points, name)
	}
}

func FuzzQuery(f *testing.F) {
	f.Add(`query Q($n: Int = 50) { a(first: $n) { ...F } } fragment F on A { b(last: 3) @x(y: """z""") { c } }`, 5.0)
	f.Fuzz(func(t *testing.T, q string, n float64) {
		data, err := json.Marshal(map[string]any{"query": q, "variables": map[string]any{"n": n}})
		if err != nil {
			return // no number
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.github.com/graphql", strings.NewReader(string(data)))
		require.NoError(t, err)
		for _, c := range github.Profile.Costs(req) {
			require.GreaterOrEqual(t, c.N, int64(1))
			require.LessOrEqual(t, c.N, int64(5000))
			require.Equal(t, policies.Learned{}, c.Learned)
		}
	})
}
