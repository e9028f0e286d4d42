package anthropic_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/anthropic"
	"github.com/headway-go/headway/policies/fields"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, anthropic.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, anthropic.Profile, "testdata") }

// A gateway may require a password, which must not be found by hashing many and comparing.
func TestAPasswordIsNoPlainHash(t *testing.T) {
	t.Parallel()
	scope := func(password string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://upstream.test/v1/messages", nil)
		require.NoError(t, err)
		r.SetBasicAuth("ann", password)
		auth := r.Header.Get("Authorization")
		got := anthropic.Profile.Scopes[0].Value(r)
		require.NotEqual(t, fields.Fingerprint("\n"+auth), got)
		return got
	}
	require.NotEqual(t, scope("secret"), scope("secret2"))
}
