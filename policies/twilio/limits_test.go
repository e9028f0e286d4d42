package twilio_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/specs"
	"github.com/headway-go/headway/policies/twilio"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, twilio.Profile, append(twilio.Limits(50), twilio.Calls(1)))
	require.Error(t, twilio.Limits(0)[0].Validate())
	require.Error(t, twilio.Calls(0).Validate())
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	p := twilio.Concurrent(20)
	profiletest.Limits(t, twilio.Profile, append(twilio.Limits(50), twilio.Calls(1), p))
	require.Equal(t, twilio.PolicyConcurrent, p.Name())
	require.Equal(t, twilio.Limits(50)[0].Scopes(), p.Scopes())
	require.False(t, p.IsOptional())
	spec := p.Spec()
	require.Equal(t, specs.Concurrency, spec.Algorithm)
	require.Equal(t, int64(20), spec.Limit)
	require.Zero(t, spec.After)
	require.Error(t, twilio.Concurrent(0).Validate())
}

func TestTheAccountAndEndpointOfARequest(t *testing.T) {
	t.Parallel()
	const calls = twilio.EndpointCalls
	for _, c := range []struct{ method, path, account, endpoint string }{
		{http.MethodPost, "/2010-04-01/Accounts/AC1/Calls.json", "AC1", calls},
		{http.MethodPost, "/2010-04-01/Accounts/AC1/Calls", "AC1", calls},
		{http.MethodGet, "/2010-04-01/Accounts/AC1/Calls.json", "AC1", ""},
		{http.MethodPost, "/2010-04-01/Accounts/AC1/Calls/CA1.json", "AC1", ""},
		{http.MethodPost, "/2010-04-01/Accounts/AC1/Messages.json", "AC1", ""},
		{http.MethodPost, "/2010-04-01/Accounts/AC1.json", "AC1", ""},
		{http.MethodPost, "/2010-04-01/Accounts.json", "api.twilio.com", ""},
		{http.MethodPost, "/2010-04-01/Accounts/", "api.twilio.com", ""},
		{http.MethodPost, "/Calls.json", "api.twilio.com", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "https://api.twilio.com"+c.path, http.NoBody)
		require.NoError(t, err)
		require.Equal(t, c.account, twilio.Profile.Scopes[0].Value(req), c.path)
		require.Equal(t, c.endpoint, twilio.Profile.Scopes[1].Value(req), c.path)
	}
}

// Requests without an account in their path count with those that have it. A key's name does not identify the account.
func TestTheUserNameTellsTheAccount(t *testing.T) {
	t.Parallel()
	const sid = "AC0123456789abcdef0123456789abcdef"
	for name, same := range map[string]bool{sid: true, "SK" + sid[2:]: false, sid + "0": false, "AC1": false, "": false} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://verify.twilio.com/v2/Services", http.NoBody)
		require.NoError(t, err)
		req.SetBasicAuth(name, "secret")
		account := twilio.Profile.Scopes[0].Value(req)
		require.Equal(t, same, account == sid, name)
		require.NotContains(t, account, "secret")
	}
}
