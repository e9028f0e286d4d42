package openai_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/fields"
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, openai.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, openai.Profile, "testdata") }

// A gateway may require a password, which must not be found by hashing many and comparing.
func TestAPasswordIsNoPlainHash(t *testing.T) {
	t.Parallel()
	scope := func(password string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://upstream.test/v1/messages", nil)
		require.NoError(t, err)
		r.SetBasicAuth("ann", password)
		auth := r.Header.Get("Authorization")
		got := openai.Profile.Scopes[0].Value(r)
		require.NotEqual(t, fields.Fingerprint(strings.Join([]string{auth, "", "", "", "upstream.test"}, "\n")), got)
		return got
	}
	require.NotEqual(t, scope("secret"), scope("secret2"))
}
