package shopify_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/shopify"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, shopify.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, shopify.Profile, "testdata") }

// A body that is closed early may end in the middle of its cost.
func TestANumberThatIsCutOffIsNoCost(t *testing.T) {
	t.Parallel()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://acme.myshopify.com/admin/api/2026-01/graphql.json",
		strings.NewReader(`{"query":"{ shop { name } }"}`))
	require.NoError(t, err)
	twelve := []policies.Cost{{Policy: shopify.PolicyGraphQL, N: 12}}
	for end, want := range map[string][]policies.Cost{"12": nil, "12,": twelve, "12}": twelve} {
		r := &policies.Reply{Request: req, Status: http.StatusOK, Body: []byte(`{"extensions":{"cost":{"actualQueryCost":` + end)}
		require.Equal(t, want, shopify.Profile.Settle(r), end)
	}
}
