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

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, plan := range []shopify.Plan{shopify.Standard, shopify.Advanced, shopify.Plus, shopify.Enterprise} {
		profiletest.Limits(t, shopify.Profile, shopify.Limits(plan))
	}
	require.Error(t, shopify.Limits(0)[0].Validate())
}

// The cost is at the end of a reply. Only its last bytes may be known.
func TestTheCostIsFoundAtTheEndOfALongReply(t *testing.T) {
	t.Parallel()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://a.myshopify.com/admin/api/2026-01/graphql.json", nil)
	require.NoError(t, err)
	for tail, want := range map[string][]policies.Cost{
		`xxx"}},"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":46,"throttleStatus":{}}}}`: {{Policy: "graphql", N: 46}},
		`"actualQueryCost":7},"x":"y","actualQueryCost": 8.2}}`:                                             {{Policy: "graphql", N: 9}},
		`"actualQueryCost":null}`: nil,
		`"actualQueryCost":-1}`:   nil,
		`"actualQueryCost":1e12}`: nil,
		`"actualQueryCost":`:      nil,
		`"actualQueryCost":NaN}`:  nil,
		`nothing`:                 nil,
	} {
		got := shopify.Profile.Settle(&policies.Reply{Request: req, Status: http.StatusOK, Body: []byte(strings.Repeat("x", 100) + tail)})
		require.Equal(t, want, got, tail)
	}
}
