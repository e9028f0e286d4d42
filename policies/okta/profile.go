package okta

import (
	"encoding/json"
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
	Peek:   fields.PeekRefusal,
	Read:   fields.HeedUnavailable(read),
}

// LimitMessages is the limit of the messages and telephone calls that Okta sends to a user, or for an org. No policy has this name, so
// only the refused call waits.
const LimitMessages = "messages"

// messages holds how long to wait after a refusal by that limit, by its code; 0 if its period is a day or 30 days.
// Source: https://developer.okta.com/docs/reference/error-codes/
var messages = map[string]time.Duration{
	"E0000109": 30 * time.Second, "E0000118": 5 * time.Second, "E0000133": 30 * time.Second, // SMS, email, telephone call
	"E0000146": 0, "E0000147": 0, "E0000186": 0, "E0000204": 0, "E0000205": 0,
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
	if r.Status == http.StatusTooManyRequests { //nolint:nestif // one reply, in the order of its parts
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
		var body struct {
			ErrorCode string `json:"errorCode"`
		}
		_ = json.Unmarshal(r.Body, &body)             // an unreadable body has no code
		if wait, ok := messages[body.ErrorCode]; ok { // the fields are about the endpoint, which did not refuse the call
			f.Source, f.Policies, f.Wait, counted = body.ErrorCode, []string{LimitMessages}, wait, reported && limit > 0
			if wait == 0 {
				reading.Verdict = policies.Spent
			}
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
