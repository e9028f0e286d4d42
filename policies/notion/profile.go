package notion

import (
	"net/http"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is the profile of Notion's API.
var Profile = policies.Profile{
	Name:        "notion",
	Credentials: []string{"Authorization"},
	Scopes:      []policies.Scope{{Name: ScopeIntegration, Value: integration}},
	Read:        fields.HeedUnavailable(read),
}

func integration(r *http.Request) string {
	return fields.Caller(r)
}

func read(r *policies.Reply) policies.Reading {
	if r.Status != http.StatusTooManyRequests {
		return policies.Reading{}
	}
	f := policies.Feedback{Source: "429", Policies: []string{PolicyIntegration}, Otherwise: policies.Everyone, Refused: true}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Source, f.Wait = "Retry-After", wait
	}
	return policies.Reading{Verdict: policies.Limited, Feedback: []policies.Feedback{f}}
}
