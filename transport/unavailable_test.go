package transport_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/airtable"
	"github.com/headway-go/headway/policies/anthropic"
	"github.com/headway-go/headway/policies/atlassian"
	"github.com/headway-go/headway/policies/github"
	"github.com/headway-go/headway/policies/google"
	"github.com/headway-go/headway/policies/hubspot"
	"github.com/headway-go/headway/policies/ietf"
	"github.com/headway-go/headway/policies/intercom"
	"github.com/headway-go/headway/policies/msgraph"
	"github.com/headway-go/headway/policies/notion"
	"github.com/headway-go/headway/policies/okta"
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/policies/salesforce"
	"github.com/headway-go/headway/policies/shopify"
	"github.com/headway-go/headway/policies/slack"
	"github.com/headway-go/headway/policies/stripe"
	"github.com/headway-go/headway/policies/twilio"
	"github.com/headway-go/headway/policies/zendesk"
	"github.com/headway-go/headway/transport"
)

// profiles are all that there are.
var profiles = []policies.Profile{
	airtable.Profile, anthropic.Profile, atlassian.Profile, github.Profile, google.Profile, hubspot.Profile, ietf.Profile,
	intercom.Profile, msgraph.Profile, notion.Profile, okta.Profile, openai.Profile, salesforce.Profile, shopify.Profile,
	slack.Profile, stripe.Profile, twilio.Profile, zendesk.Profile,
}

// A 503 with a Retry-After makes everyone wait, no matter which vendor it is: Jira alone holds back no more than the call.
func TestEveryProfileHeedsA503(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(ok(1, refuse(http.StatusServiceUnavailable, "Retry-After", "20")))
				client := newClient(t, newPacer(t), u, transport.WithProfile(profile))
				for i := range 2 {
					time.Sleep(time.Duration(i) * time.Second)
					req := request(t.Context(), t, http.MethodGet, nil)
					go func() {
						resp, err := client.Do(req)
						if assert.NoError(t, err) {
							assert.NoError(t, resp.Body.Close())
						}
					}()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if profile.Name == "atlassian" {
					require.Equal(t, []time.Duration{0, time.Second, 20 * time.Second}, u.hits)
					return
				}
				require.Equal(t, []time.Duration{0, 20 * time.Second, 20 * time.Second}, u.hits)
			})
		})
	}
}
