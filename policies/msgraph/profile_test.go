package msgraph_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
	"github.com/headway-go/headway/policies/msgraph"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, msgraph.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, msgraph.Profile, "testdata") }

func request(t *testing.T, method, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Method = method
	req.Header.Set("Authorization", "Bearer abc")
	return req
}

func TestWhichLimitsBindACall(t *testing.T) {
	t.Parallel()
	const graph = "https://graph.microsoft.com"
	for _, c := range []struct {
		method, url string
		want        []string
	}{
		{"GET", graph + "/v1.0/users", []string{"tenant", "identity"}},
		{"", graph + "/v1.0/users/7", []string{"tenant", "identity"}},
		{"PATCH", graph + "/v1.0/users/7", []string{"tenant", "identity", "identity-writes"}},
		{"GET", graph + "/beta/me", []string{"tenant", "identity"}},
		{"GET", graph + "/v1.0/Me/memberOf", []string{"tenant", "identity"}},
		{"GET", graph + "/v1.0/me/messages", []string{"tenant", "mailbox"}},
		{"GET", graph + "/v1.0/groups/7/events", []string{"tenant", "mailbox"}},
		{"GET", graph + "/v1.0/users/7/chats", []string{"tenant"}},
		{"POST", graph + "/v1.0/users/7/sendMail", []string{"tenant", "mailbox"}},
		{"POST", graph + "/v1.0/me/checkMemberGroups", []string{"tenant", "identity"}},
		{"POST", graph + "/v1.0/directoryObjects/getByIds", []string{"tenant", "identity"}},
		{"POST", graph + "/v1.0/groups/7/members/$ref", []string{"tenant", "identity", "identity-writes"}},
		{"DELETE", graph + "/v1.0/applications/7", []string{"tenant", "identity", "identity-writes"}},
		{"GET", graph + "/v1.0/auditLogs/signIns", []string{"tenant", "reports"}},
		{"GET", graph + "/v1.0/sites/root", []string{"tenant", "sharepoint"}},
		{"PUT", graph + "/v1.0/me/drive/root:/a.txt:/content", []string{"tenant", "sharepoint"}},
		{"GET", graph + "/v1.0/groups/7/drive", []string{"tenant", "sharepoint"}},
		{"GET", "https://acme.SharePoint.com/_api/web", []string{"tenant", "sharepoint"}},
		{"POST", graph + "/v1.0/$batch", []string{"tenant"}},
		{"GET", graph + "/v1.0", []string{"tenant"}},
		{"GET", graph + "/users", []string{"tenant"}},
		{"GET", graph, []string{"tenant"}},
	} {
		req := request(t, c.method, c.url)
		var got []string
		for _, s := range msgraph.Profile.Scopes {
			if v := s.Value(req); v != "" {
				if s.Name != msgraph.ScopeMailbox {
					require.Equal(t, fields.Credential(req.Header), v)
				}
				got = append(got, s.Name)
			}
		}
		require.Equal(t, c.want, got, "%s %s", c.method, c.url)
	}
}

// A mailbox is identified by its name, which is not disclosed.
func TestTheMailboxOfACall(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/v1.0/me/messages":                      "me",
		"/beta/Me/mailFolders/inbox":             "me",
		"/v1.0/users/Ann@acme.test/messages/7":   "ann@acme.test",
		"/v1.0/users/ann@acme.test/calendarView": "ann@acme.test",
		"/v1.0/users/7/contacts":                 "7",
		"/v1.0/groups/7/calendar":                "7",
		"/v1.0/users/7":                          "",
		"/v1.0/users/7/drive/root":               "",
		"/v1.0/users//messages":                  "",
		"/v1.0/sites/root/messages":              "",
		"/v1.0/users/7/manager":                  "",
		"/v1.0/users/messages":                   "",
		"/v1.0/groups/7/photo/$value":            "7",
	} {
		for _, s := range msgraph.Profile.Scopes {
			if s.Name == msgraph.ScopeMailbox {
				require.Equal(t, fields.Fingerprint(want), s.Value(request(t, http.MethodGet, "https://graph.microsoft.com"+path)), path)
			}
		}
	}
}

func TestWithoutCredentialThereIsNoTenant(t *testing.T) {
	t.Parallel()
	req := request(t, http.MethodPatch, "https://graph.microsoft.com/v1.0/users/7")
	req.Header.Del("Authorization")
	for _, s := range msgraph.Profile.Scopes {
		require.Empty(t, s.Value(req), s.Name)
	}
}

// The numbers are those of the table in Graph's documentation, as $select, $expand and $top change them.
func TestResourceUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path string
		want         int64
	}{
		{"GET", "users", 2},
		{"", "users", 2},
		{"GET", "users?$select=id", 1},
		{"GET", "users?$expand=manager", 3},
		{"GET", "users?$top=19", 1},
		{"GET", "users?$top=20", 2},
		{"GET", "users?$top=-1", 2},
		{"GET", "users?$select=id&$top=5", 1}, // never lower than 1
		{"GET", "users?$select=id&$top=5&$expand=manager", 1},
		{"GET", "users/7", 1},
		{"POST", "users", 1},
		{"GET", "groups/7/transitiveMembers", 5},
		{"GET", "me/memberOf", 2},
		{"GET", "users/7/memberOf", 2},
		{"POST", "users/7/checkMemberGroups", 4},
		{"GET", "users/7/checkMemberGroups", 1},
		{"GET", "subscribedSkus", 3},
		{"GET", "oauth2PermissionGrants/7", 2},
		{"GET", "domains/acme.test/domainNameReferences", 4},
	} {
		got := msgraph.Profile.Costs(request(t, c.method, "https://graph.microsoft.com/v1.0/"+c.path))
		require.Equal(t, []policies.Cost{{Policy: "identity", N: c.want}}, got, "%s %s", c.method, c.path)
	}
	require.Empty(t, msgraph.Profile.Costs(request(t, http.MethodGet, "https://graph.microsoft.com/v1.0/me/messages")))
}
