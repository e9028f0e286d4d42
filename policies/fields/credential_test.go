package fields_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

func TestCredentialTellsCredentialsApartWithoutGivingThemAway(t *testing.T) {
	t.Parallel()
	credential := func(secret string) string { return fields.Credential(http.Header{"Authorization": {secret}}) }
	// printf 'Bearer abc' | sha256sum
	require.Equal(t, "c355dce96c161288", credential("Bearer abc"))
	require.Equal(t, fields.Fingerprint("Bearer abc"), credential("Bearer abc"))
	require.NotEqual(t, credential("Bearer abc"), credential("Bearer abd"))
	require.NotEqual(t, credential("Bearer abc"), credential("Basic abc"))
	require.Empty(t, credential(""))
	require.Empty(t, fields.Credential(nil))
	require.Empty(t, fields.Fingerprint(""))
}

// A password must not be found by hashing many and comparing.
func TestBasicCredentialsAreNoPlainHash(t *testing.T) {
	t.Parallel()
	basic := func(user, password string) string {
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(user, password)
		got := fields.Credential(r.Header)
		require.NotEqual(t, fields.Fingerprint(r.Header.Get("Authorization")), got)
		require.Equal(t, got, fields.Credential(r.Header), "the same each time, in each process")
		return got
	}
	require.Equal(t, "2f4894d140d4df09", basic("ann", "secret"))
	require.NotEqual(t, basic("ann", "secret"), basic("ann", "secret2"))
	require.NotEqual(t, basic("ann", "secret"), basic("bob", "secret"))
}

func FuzzCredential(f *testing.F) {
	f.Add("Bearer abc", "Bearer abd")
	f.Add("", "x")
	hex := regexp.MustCompile(`^[0-9a-f]{16}$`)
	f.Fuzz(func(t *testing.T, a, b string) {
		one, other := fields.Credential(http.Header{"Authorization": {a}}), fields.Credential(http.Header{"Authorization": {b}})
		if a == "" {
			require.Empty(t, one)
			return
		}
		require.Regexp(t, hex, one)
		require.True(t, policies.ValidName(one))
		if a == b {
			require.Equal(t, one, other)
		} else if !strings.EqualFold(a[:min(6, len(a))], "basic ") { // of which there are several ways to write the same
			require.NotEqual(t, one, other)
		}
	})
}

func TestCaller(t *testing.T) {
	t.Parallel()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://API.Upstream.test:443/x", nil)
	require.NoError(t, err)
	require.Equal(t, "api.upstream.test", fields.Caller(req))
	req.Header.Set("Authorization", "Bearer secret")
	require.Equal(t, fields.Fingerprint("Bearer secret"), fields.Caller(req))
}
