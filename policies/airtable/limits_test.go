package airtable_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/airtable"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, airtable.Profile, airtable.Limits())
}

func TestTheBaseOfAPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/v0/appABC/Tasks":               "appABC",
		"/v0/appABC/tblX/recY/comments":  "appABC",
		"/v0/appABC/applications":        "appABC",
		"/v0/appABC":                     "appABC",
		"/v0/meta/bases/appABC/tables":   "appABC",
		"/v0/meta/bases/appABC":          "appABC",
		"/v0/bases/appABC/webhooks":      "appABC",
		"/v0/meta/bases":                 "",
		"/v0/meta/whoami":                "",
		"/v0/meta/workspaces/wspX/appsX": "",
		"/proxy/apps/v0/appABC/Tasks":    "appABC",
		"/apps":                          "",
		"/v0/":                           "",
		"":                               "",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.airtable.com"+path, http.NoBody)
		require.NoError(t, err)
		require.Equal(t, want, airtable.Profile.Scopes[0].Value(req), path)
	}
}
