package atlassian_test

import (
	"testing"

	"github.com/headway-go/headway/policies/atlassian"
	"github.com/headway-go/headway/policies/profiletest"
)

// Source: https://developer.atlassian.com/cloud/jira/platform/rest/v3/intro/
func TestARouteIsOneScope(t *testing.T) {
	t.Parallel()
	profiletest.Routes(t, atlassian.Profile.Scopes[2], "https://acme.atlassian.net", []string{
		"GET /rest/api/3/project", "GET /rest/api/3/project/search", "GET /rest/api/3/project/{projectIdOrKey}",
		"GET /rest/api/3/project/{projectIdOrKey}/role/{id}", "GET /rest/api/3/project/{projectIdOrKey}/properties/{propertyKey}",
		"POST /rest/api/3/issue", "GET /rest/api/3/issue/{issueIdOrKey}", "POST /rest/api/3/issue/{issueIdOrKey}/comment",
		"GET /rest/api/3/issue/{issueIdOrKey}/comment/{id}", "GET /rest/api/3/issue/{issueIdOrKey}/properties/{propertyKey}",
		"GET /rest/api/3/issue/createmeta", "GET /rest/api/3/user", "GET /rest/api/3/group/member", "GET /rest/api/3/search",
		"GET /rest/api/3/workflowscheme/{id}/issuetype/{issueType}", "GET /rest/api/3/dashboard/{id}", "GET /rest/api/3/filter/{id}/columns",
		"GET /rest/agile/1.0/board/{boardId}/sprint", "GET /rest/agile/1.0/sprint/{sprintId}/issue",
	})
}
