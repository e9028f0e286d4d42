package okta

import (
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is the profile of Okta's API.
var Profile = policies.Profile{
	Name:   "okta",
	Scopes: []policies.Scope{{Name: ScopeEndpoint, Value: endpoint}, {Name: ScopeOrg, Value: org}},
	Read:   fields.HeedUnavailable(read),
}

func org(r *http.Request) string { return strings.ToLower(r.URL.Hostname()) }

// endpoint returns org, method and path, with a * in place of each id: each element that is not the name of a resource.
func endpoint(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	first := 2
	switch parts[0] {
	case "api":
		first = 3
	case "oauth2": // oauth2/v1/token, or of an authorization server: oauth2/default/v1/token
		first = 1
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	return org(r) + " " + method + " " + names.Template(parts, first)
}

func read(r *policies.Reply) policies.Reading {
	limit, first := fields.Number(fields.Get(r.Header, "X-Rate-Limit-Limit"))
	remaining, second := fields.Number(fields.Get(r.Header, "X-Rate-Limit-Remaining"))
	reset, third := fields.Wait(fields.Get(r.Header, "X-Rate-Limit-Reset"), fields.Now(r.Header, r.Now))
	reported := first && second
	counted := reported && limit > 0
	var reading policies.Reading
	if r.Status == http.StatusTooManyRequests {
		reading.Verdict = policies.Limited
		f := policies.Feedback{Source: "X-Rate-Limit-Reset", Policies: []string{PolicyEndpoint}, Otherwise: policies.TheCall, Refused: true}
		// Okta documents a limit of 0. If something is left of the minute, the limit on calls at once must have refused the call.
		// Source: https://developer.okta.com/docs/reference/rl-best-practices/#example-rate-limit-header-with-concurrent-rate-limit
		if reported && (limit == 0 || remaining > 0) {
			f.Policies, counted = []string{PolicyConcurrent}, false
		}
		if third {
			f.Wait = reset
		}
		if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
			f.Source, f.Wait = "Retry-After", wait
		}
		reading.Feedback = append(reading.Feedback, f)
	}
	if counted && third && !fields.Cached(r.Header) {
		reading.Feedback = append(reading.Feedback, policies.Feedback{
			Source: "X-Rate-Limit-Limit", Policies: []string{PolicyEndpoint}, Otherwise: policies.TheCall,
			Limit: policies.Reported(limit), Window: time.Minute, Remaining: policies.Reported(remaining), Reset: reset,
		})
	}
	return reading
}
