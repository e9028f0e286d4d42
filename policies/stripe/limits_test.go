package stripe_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/specs"
	"github.com/headway-go/headway/policies/stripe"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, mode := range []stripe.Mode{stripe.Sandbox, stripe.Live} {
		profiletest.Limits(t, stripe.Profile, stripe.Limits(mode))
	}
	require.Error(t, stripe.Limits(0)[0].Validate())
}

// The caller chooses the number; the names are those in refusals.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	all, each := stripe.Concurrent(20), stripe.EndpointConcurrent(5)
	profiletest.Limits(t, stripe.Profile, append(stripe.Limits(stripe.Live), all, each))
	for _, c := range []struct {
		policy      policies.Policy
		name, scope string
		n           int64
	}{{all, "global-concurrency", stripe.ScopeAccount, 20}, {each, "endpoint-concurrency", stripe.ScopeEndpoint, 5}} {
		require.Equal(t, c.name, c.policy.Name())
		require.Equal(t, []string{c.scope}, c.policy.Scopes())
		require.True(t, c.policy.IsOptional())
		spec := c.policy.Spec()
		require.Equal(t, specs.Concurrency, spec.Algorithm)
		require.Equal(t, c.n, spec.Limit)
		require.Zero(t, spec.After)
	}
	require.Error(t, stripe.Concurrent(0).Validate())
	require.Error(t, stripe.EndpointConcurrent(0).Validate())
}

// An endpoint is the same for all of its objects.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"GET /v1/customers":                                "GET v1/customers",
		"GET /v1/customers/cus_NffrFeUfNV2Hib":             "GET v1/customers/*",
		"POST /v1/payment_intents/pi_3MtwBwLkdIwH/confirm": "POST v1/payment_intents/*/confirm",
		"GET /v1/charges/search":                           "GET v1/charges/search",
		"GET /":                                            "GET ",
	} {
		method, rest := path[:len(path)-len(path[indexSpace(path):])], path[indexSpace(path)+1:]
		req, err := http.NewRequestWithContext(t.Context(), method, "https://api.stripe.com"+rest, nil)
		require.NoError(t, err)
		req.Header.Set("Stripe-Account", "acct_1")
		require.Equal(t, "acct_1 "+want, stripe.Profile.Scopes[1].Value(req))
	}
}

func indexSpace(s string) int {
	for i := range s {
		if s[i] == ' ' {
			return i
		}
	}
	return -1
}
