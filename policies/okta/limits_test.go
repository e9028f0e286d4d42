package okta_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/okta"
	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/specs"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 5, 100, 1200} {
		profiletest.Limits(t, okta.Profile, okta.Limits(n))
	}
	require.Error(t, okta.Limits(0)[0].Validate())
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		plan okta.Plan
		want int64
	}{{okta.IntegratorFree, 35}, {okta.CustomerIdentity, 75}, {okta.WorkforceIdentity, 75}, {150, 150}} {
		p := okta.Concurrent(c.plan)
		profiletest.Limits(t, okta.Profile, append(okta.Limits(600), p))
		require.Equal(t, okta.PolicyConcurrent, p.Name())
		require.Equal(t, []string{okta.ScopeOrg}, p.Scopes())
		spec := p.Spec()
		require.Equal(t, specs.Concurrency, spec.Algorithm)
		require.Equal(t, c.want, spec.Limit)
		require.Zero(t, spec.After)
	}
	require.Error(t, okta.Concurrent(0).Validate())
}

func TestAnEndpointIsTheSameForAllOfItsObjects(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/v1/users":                "acme.okta.com GET api/v1/users",
		"/api/v1/users/00u1":           "acme.okta.com GET api/v1/users/*",
		"/api/v1/users/00u1/groups":    "acme.okta.com GET api/v1/users/*/groups",
		"/api/v1/apps/0oa1/users/00u1": "acme.okta.com GET api/v1/apps/*/users/*",
		"/oauth2/v1/token":             "acme.okta.com GET oauth2/v1/token",
		"/":                            "acme.okta.com GET ",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://Acme.okta.com"+path, nil)
		require.NoError(t, err)
		require.Equal(t, want, okta.Profile.Scopes[0].Value(req))
		require.Equal(t, "acme.okta.com", okta.Profile.Scopes[1].Value(req))
	}
}
