package stripe_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/stripe"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, mode := range []stripe.Mode{stripe.Sandbox, stripe.Live} {
		profiletest.Limits(t, stripe.Profile, stripe.Limits(mode))
	}
	require.Error(t, stripe.Limits(0)[0].Validate())
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
