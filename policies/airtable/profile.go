package airtable

import (
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Penalty is how long Airtable refuses everything after a refusal.
// Source: https://airtable.com/developers/web/api/rate-limits
const Penalty = 30 * time.Second

// Profile is Airtable's.
var Profile = policies.Profile{
	Name:   "airtable",
	Scopes: []policies.Scope{{Name: ScopeBase, Value: base}, {Name: ScopeUser, Value: user}},
	Read:   read,
}

// base returns the element of the path that is a base: their ids begin with "app".
func base(r *http.Request) string {
	for part := range strings.SplitSeq(r.URL.Path, "/") {
		if strings.HasPrefix(part, "app") && len(part) > len("app") {
			return part
		}
	}
	return ""
}

func user(r *http.Request) string {
	if c := fields.Credential(r.Header); c != "" {
		return c
	}
	return strings.ToLower(r.URL.Hostname())
}

func read(r *policies.Reply) policies.Reading {
	if r.Status != http.StatusTooManyRequests {
		return policies.Reading{}
	}
	f := policies.Feedback{Source: "429", Policies: []string{PolicyUser}, Otherwise: policies.Everyone, Refused: true, Wait: Penalty}
	if base(r.Request) != "" {
		f.Policies = []string{PolicyBase}
	}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok && wait > Penalty {
		f.Source, f.Wait = "Retry-After", wait
	}
	return policies.Reading{Verdict: policies.Limited, Feedback: []policies.Feedback{f}}
}
