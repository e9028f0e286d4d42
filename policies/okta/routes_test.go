package okta_test

import (
	"testing"

	"github.com/headway-go/headway/policies/okta"
	"github.com/headway-go/headway/policies/profiletest"
)

// Source: https://developer.okta.com/docs/api/openapi/okta-management/guides/overview/
func TestARouteIsOneScope(t *testing.T) {
	t.Parallel()
	profiletest.Routes(t, okta.Profile.Scopes[0], "https://acme.okta.com", []string{
		"GET /api/v1/users", "GET /api/v1/users/{id}", "GET /api/v1/users/{id}/groups", "POST /api/v1/users/{id}/lifecycle/activate",
		"GET /api/v1/users/{id}/factors/{factorId}", "GET /api/v1/groups/rules", "GET /api/v1/groups/rules/{groupRuleId}",
		"POST /api/v1/groups/rules/{groupRuleId}/lifecycle/activate", "GET /api/v1/groups/{groupId}", "PUT /api/v1/groups/{groupId}/users/{userId}",
		"GET /api/v1/apps/{appId}/credentials/keys", "GET /api/v1/apps/{appId}/credentials/keys/{keyId}",
		"GET /api/v1/apps/{appId}/credentials/csrs/{csrId}", "GET /api/v1/apps/{appId}/users/{userId}",
		"GET /api/v1/authorizationServers/{authServerId}/policies/{policyId}/rules/{ruleId}",
		"GET /api/v1/idps/credentials/keys/{kid}", "GET /api/v1/idps/{idpId}/credentials/keys/{kid}", "GET /api/v1/logs",
		"GET /api/v1/zones/{zoneId}", "GET /api/v1/sessions/{sessionId}", "GET /api/v1/meta/schemas/apps/{appId}/default",
		"GET /api/v1/policies/{policyId}/rules/{ruleId}", "POST /oauth2/v1/token", "POST /oauth2/{authServerId}/v1/token",
		"GET /oauth2/v1/clients/{clientId}/roles/{roleAssignmentId}", "GET /oauth2/{authServerId}/v1/keys",
	})
}
