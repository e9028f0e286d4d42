package zendesk_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/zendesk"
)

// requests are calls with few scopes, with several, and with a query that matters; and how often reading all scopes may allocate: for
// values that are not parts of the URL, and for a query.
var requests = map[string]struct {
	method, url string
	most        float64
}{
	"one account":      {http.MethodGet, "https://acme.zendesk.com/api/v2/users/7.json?include=identities", 0},
	"an endpoint":      {http.MethodGet, "https://acme.zendesk.com/api/v2/incremental/tickets/cursor.json?cursor=abc", 0},
	"the Help Center":  {http.MethodGet, "https://acme.zendesk.com/api/v2/help_center/articles.json", 0},
	"a list":           {http.MethodGet, "https://acme.zendesk.com/api/v2/tickets.json", 0},
	"a page of a list": {http.MethodGet, "https://acme.zendesk.com/api/v2/tickets.json?page=501&per_page=100", 4},
	"a user":           {http.MethodPut, "https://acme.zendesk.com/api/v2/users/7.json", 1},
	"a ticket":         {http.MethodPut, "https://acme.zendesk.com/api/v2/tickets/7.json", 3},
}

func requestOf(tb testing.TB, method, url string) *http.Request {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, url, nil)
	require.NoError(tb, err)
	req.Header.Set("Authorization", "Bearer token")
	return req
}

func readScopes(req *http.Request) {
	for _, s := range zendesk.Profile.Scopes {
		_ = s.Value(req)
	}
}

// The profile has a dozen scopes, all of which look at the URL. None of them splits or decodes it again.
func TestReadingScopesAllocatesLittle(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	for name, r := range requests {
		req := requestOf(t, r.method, r.url)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { readScopes(req) }), r.most, name)
	}
}

func BenchmarkScopes(b *testing.B) {
	for name, r := range requests {
		b.Run(name, func(b *testing.B) {
			req := requestOf(b, r.method, r.url)
			b.ReportAllocs()
			for b.Loop() {
				readScopes(req)
			}
		})
	}
}
