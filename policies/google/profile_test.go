package google_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/fields"
	"github.com/headway-go/headway/policies/google"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, google.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, google.Profile, "testdata") }

func TestAPIsOfOneHostAreCountedApart(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://www.googleapis.com/calendar/v3/calendars/primary": "www.googleapis.com/calendar",
		"https://WWW.googleapis.com/drive/v3/files":                "www.googleapis.com/drive",
		"https://www.googleapis.com/upload/drive/v3/files":         "www.googleapis.com/drive",
		"https://www.googleapis.com/batch/calendar/v3":             "www.googleapis.com/calendar",
		"https://www.googleapis.com":                               "www.googleapis.com/",
		"https://gmail.googleapis.com/gmail/v1/users/me/messages":  "gmail.googleapis.com",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		require.Equal(t, want, google.Profile.Scopes[0].Value(req), url)
		req.Header.Set("X-Goog-User-Project", "acme")
		require.Equal(t, want+" acme", google.Profile.Scopes[0].Value(req), url)
	}
}

// quotaUser takes precedence over the field, and the field over the credential; none of them is disclosed in a scope value.
func TestWhoIsTheUser(t *testing.T) {
	t.Parallel()
	const api = "gmail.googleapis.com "
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://gmail.googleapis.com/gmail/v1/users/me/messages", nil)
	require.NoError(t, err)
	user := google.Profile.Scopes[1].Value
	require.Empty(t, user(req))
	req.Header.Set("Authorization", "Bearer secret")
	require.Equal(t, api+fields.Fingerprint("Bearer secret"), user(req))
	req.Header.Set("X-Goog-Quota-User", "ann")
	require.Equal(t, api+fields.Fingerprint("ann"), user(req))
	req.URL.RawQuery = "quotaUser=bob"
	require.Equal(t, api+fields.Fingerprint("bob"), user(req))
	require.NotContains(t, user(req), "bob")
}

// Only the body of a refusal is read: other bodies are not held back.
func TestOnlyRefusalsAreLookedInto(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{200: false, 400: false, 401: false, 403: true, 404: false, 429: true, 500: false, 503: false} {
		n := google.Profile.Peek(&http.Response{StatusCode: status, Body: http.NoBody})
		require.Equal(t, want, n > 0, status)
	}
}
