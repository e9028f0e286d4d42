package google

import (
	"time"

	"github.com/headway-go/headway/policies"
)

// Names of the policies and scopes.
const (
	PolicyProject = "project"
	PolicyUser    = "user"
	// LimitDaily is a quota that is spent for longer than minutes. No policy has this name.
	LimitDaily = "daily"

	ScopeProject = "project" // the API, and the project of X-Goog-User-Project if there is one
	ScopeUser    = "user"    // the same, and a hash of quotaUser or of the Authorization field
)

// Limits returns the stack of an API: the calls per minute of a project, and of each of its users. Both windows slide. Take the numbers
// from the project's console. There are no defaults, because the numbers differ by API and project. For Calendar they were 10,000 and 600
// in 2025, and others for projects created since May 2026.
//
// Source: https://developers.google.com/workspace/calendar/api/guides/quota
func Limits(perProject, perUser int64) []policies.Policy {
	return []policies.Policy{
		policies.Sliding(perProject, time.Minute).Per(ScopeProject).Named(PolicyProject),
		policies.Sliding(perUser, time.Minute).Per(ScopeUser).Optional().Named(PolicyUser),
	}
}
