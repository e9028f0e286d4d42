package okta

import (
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is Okta's.
var Profile = policies.Profile{
	Name:   "okta",
	Scopes: []policies.Scope{{Name: ScopeEndpoint, Value: endpoint}},
	Read:   read,
}

// endpoint returns org, method and path, with a * for each id: in Okta's paths every second element after the version.
func endpoint(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) > 2 && parts[0] == "api" {
		for i := 3; i < len(parts); i += 2 {
			parts[i] = "*"
		}
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	return strings.ToLower(r.URL.Hostname()) + " " + method + " " + strings.Join(parts, "/")
}

func read(r *policies.Reply) policies.Reading {
	limit, first := fields.Number(r.Header.Get("X-Rate-Limit-Limit"))
	remaining, second := fields.Number(r.Header.Get("X-Rate-Limit-Remaining"))
	reset, third := fields.EpochSeconds(r.Header.Get("X-Rate-Limit-Reset"), fields.Now(r.Header, r.Now))
	counted := first && second && limit > 0
	var reading policies.Reading
	if r.Status == http.StatusTooManyRequests {
		reading.Verdict = policies.Limited
		f := policies.Feedback{Source: "X-Rate-Limit-Reset", Policies: []string{PolicyEndpoint}, Otherwise: policies.TheCall, Refused: true}
		if counted && remaining > 0 {
			f.Policies, counted = []string{LimitConcurrent}, false
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
			Limit: policies.Said(limit), Window: time.Minute, Remaining: policies.Said(remaining), Reset: reset,
		})
	}
	return reading
}
