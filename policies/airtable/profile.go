package airtable

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Penalty is how long Airtable refuses all calls after a refusal.
// Source: https://airtable.com/developers/web/api/rate-limits
const Penalty = 30 * time.Second

// Profile is the profile of Airtable's Web API.
var Profile = policies.Profile{
	Name:        "airtable",
	Credentials: []string{"Authorization"},
	Scopes:      []policies.Scope{{Name: ScopeBase, Value: base}, {Name: ScopeUser, Value: user}},
	Peek:        fields.PeekRefusal,
	Read:        fields.HeedUnavailable(read),
}

// base returns the base that a path names: /v0/{base}/…, /v0/meta/bases/{base}/… or /v0/bases/{base}/… (webhooks). The ids of bases begin
// with "app", which distinguishes them from "meta" and "bases".
func base(r *http.Request) string {
	_, path, _ := strings.Cut(r.URL.Path, "/v0/")
	path = strings.TrimPrefix(path, "meta/")
	path = strings.TrimPrefix(path, "bases/")
	id, _, _ := strings.Cut(path, "/")
	if !strings.HasPrefix(id, "app") {
		return ""
	}
	return id
}

func user(r *http.Request) string {
	return fields.Caller(r)
}

// monthSpent is the code that Airtable sends when a workspace has spent its calls for the month. Only the limit is documented, not the
// code: https://support.airtable.com/docs/managing-api-call-limits-in-airtable
const monthSpent = "PUBLIC_API_BILLING_LIMIT_EXCEEDED"

// MonthlyProbe is how long calls pause when the month's calls are spent. It is this package's own choice: Airtable reports no time.
const MonthlyProbe = 15 * time.Minute

func read(r *policies.Reply) policies.Reading {
	if r.Status != http.StatusTooManyRequests {
		return policies.Reading{}
	}
	f := policies.Feedback{Source: "429", Policies: []string{PolicyUser}, Otherwise: policies.Everyone, Refused: true, Certain: true, Wait: Penalty}
	if base(r.Request) != "" {
		f.Policies, f.Otherwise = []string{PolicyBase}, policies.TheCall
	}
	verdict := policies.Limited
	if bytes.Contains(r.Body, []byte(monthSpent)) { // also finds it in a truncated body, and in either form of Airtable's errors
		verdict, f.Source, f.Wait = policies.Spent, monthSpent, MonthlyProbe
		f.Policies, f.Otherwise = []string{PolicyBase}, policies.TheCall // the workspace of the base; the user has others
	}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok && wait > f.Wait {
		f.Source, f.Wait = "Retry-After", wait
	}
	return policies.Reading{Verdict: verdict, Feedback: []policies.Feedback{f}}
}
