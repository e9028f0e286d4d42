package atlassian_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/atlassian"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, atlassian.Profile, append(atlassian.Limits(), atlassian.AppQuota(), atlassian.TenantQuota(1000)))
	require.Error(t, atlassian.TenantQuota(0).Validate())
}

func TestWhichLimitsBindACall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, url, reads, writes, issue, tenant string }{
		{"GET", "https://Acme.atlassian.net/rest/api/3/issue/PROJ-7", "acme.atlassian.net GET issue/*", "", "", "acme.atlassian.net"},
		{"PUT", "https://acme.atlassian.net/rest/api/3/issue/PROJ-7", "", "acme.atlassian.net PUT issue/*", "acme.atlassian.net PROJ-7", "acme.atlassian.net"},
		{"POST", "https://acme.atlassian.net/rest/api/3/issue/PROJ-7/comment", "acme.atlassian.net POST issue/*/comment", "", "acme.atlassian.net PROJ-7", "acme.atlassian.net"},
		{"POST", "https://acme.atlassian.net/rest/api/3/issue", "acme.atlassian.net POST issue", "", "", "acme.atlassian.net"},
		{"GET", "https://api.atlassian.com/ex/jira/11223344-a1b2/rest/api/3/search", "11223344-a1b2 GET search", "", "", "11223344-a1b2"},
		{"DELETE", "https://acme.atlassian.net/rest/agile/1.0/board/84", "", "acme.atlassian.net DELETE board/*", "", "acme.atlassian.net"},
		{"GET", "https://acme.atlassian.net/", "acme.atlassian.net GET ", "", "", "acme.atlassian.net"},
		{"GET", "https://acme.atlassian.net/rest/api", "acme.atlassian.net GET rest/api", "", "", "acme.atlassian.net"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.url, nil)
		require.NoError(t, err)
		got := make(map[string]string)
		for _, s := range atlassian.Profile.Scopes {
			got[s.Name] = s.Value(req)
		}
		require.Equal(t, c.reads, got["reads"], c.url)
		require.Equal(t, c.writes, got["writes"], c.url)
		require.Equal(t, c.issue, got["issue"], c.url)
		require.Equal(t, c.tenant, got["tenant"], c.url)
	}
}
