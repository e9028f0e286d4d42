package transport_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// A request that need not wait allocates three times at most: its reservation, the limits if some have scopes, and what the
// profile reads; once more for each scope that the transport finds, and once if it could be repeated. The race detector allocates nothing of its own here.
func TestARequestAllocatesLittle(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	ample := func() policies.Policy { return policies.PerSecond(1_000_000).Burst(1_000_000_000) }
	resp := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{"Content-Type": {"text/plain"}}}
	base := transport.WithBase(roundTripper(func(*http.Request) (*http.Response, error) { return resp, nil }))
	tenant := transport.WithScope("tenant", func(req *http.Request) string { return req.Host })
	for name, stack := range map[string][]policies.Policy{
		"one limit":    {ample()},
		"three limits": {ample().Named("a"), ample().Named("b"), ample().Per("tenant")},
	} {
		paced, err := transport.New(newPacer(t, stack...), base, tenant)
		require.NoError(t, err)
		client, err := transport.NewClient(newPacer(t, stack...), base, tenant)
		require.NoError(t, err)
		req := request(pacer.With(t.Context(), pacer.Scope("user", "bob")), t, http.MethodGet, nil)
		for most, rt := range map[float64]http.RoundTripper{4: paced, 5: client.Transport} {
			n := testing.AllocsPerRun(1000, func() {
				if _, err := rt.RoundTrip(req); err != nil {
					t.Fatal(err)
				}
			})
			require.LessOrEqual(t, n, most, name)
		}
	}
}
