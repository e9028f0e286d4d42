package stripe

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// LimitResource is the limit of one object. No policy has this name, so only the refused call waits.
const LimitResource = "resource-specific"

// Profile is the profile of Stripe's API.
var Profile = policies.Profile{
	Name:        "stripe",
	Credentials: []string{"Authorization"},
	Scopes: []policies.Scope{
		{Name: ScopeAccount, Value: account},
		{Name: ScopeEndpoint, Value: func(r *http.Request) string {
			_, template := endpoint(r)
			return account(r) + " " + method(r) + " " + template
		}},
		{Name: ScopeSearch, Value: func(r *http.Request) string {
			if e, _ := endpoint(r); e[len(e)-1] == "search" {
				return account(r)
			}
			return ""
		}},
		{Name: ScopeFiles, Value: func(r *http.Request) string {
			if e, _ := endpoint(r); len(e) < 2 || e[1] != "files" {
				return ""
			}
			if method(r) == http.MethodGet {
				return account(r) + " read"
			}
			return account(r) + " write"
		}},
	},
	Peek: fields.PeekRefusal,
	Read: fields.HeedUnavailable(read),
}

func method(r *http.Request) string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

// account returns a text that identifies the account: for a connected one its id, which is no secret.
func account(r *http.Request) string {
	if id := r.Header.Get("Stripe-Account"); id != "" {
		return id
	}
	return fields.Caller(r)
}

// endpoint returns the elements of a path, and the path with a * in place of each id: each element that is not the name of a resource.
// Users choose the ids of coupons and of some other objects.
func endpoint(r *http.Request) (parts []string, template string) {
	parts = strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	return parts, names.Template(parts, 2)
}

func read(r *policies.Reply) policies.Reading {
	if r.Status != http.StatusTooManyRequests {
		return policies.Reading{}
	}
	reading := policies.Reading{Verdict: policies.Limited}
	if strings.EqualFold(strings.TrimSpace(fields.Get(r.Header, "Stripe-Should-Retry")), "false") {
		reading.Verdict = policies.Spent
	}
	reason := strings.TrimSpace(fields.Get(r.Header, "Stripe-Rate-Limited-Reason"))
	f := policies.Feedback{Source: "Stripe-Rate-Limited-Reason", Refused: true, Otherwise: policies.TheCall}
	switch reason {
	case "global-rate":
		f.Policies, f.Otherwise = []string{PolicyAccount}, policies.Everyone
	case "endpoint-rate":
		f.Policies = []string{PolicyEndpoint, PolicySearch, PolicyFiles}
	case PolicyGlobalConcurrency, PolicyEndpointConcurrency, LimitResource:
		f.Policies = []string{reason}
	default:
		if locked(r.Body) {
			return reading // the call is repeated, and no other call waits
		}
		f.Source, f.Policies, f.Otherwise = "429", []string{PolicyAccount}, policies.Everyone
	}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Wait = wait
	}
	reading.Feedback = append(reading.Feedback, f)
	return reading
}

// locked reports whether another call held the object.
// Source: https://docs.stripe.com/rate-limits#object-lock-timeouts
func locked(body []byte) bool {
	var reply struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	return json.Unmarshal(body, &reply) == nil && reply.Error.Code == "lock_timeout"
}
