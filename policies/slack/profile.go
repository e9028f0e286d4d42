package slack

import (
	"net/http"
	"path"
	"strings"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is the profile of Slack's Web API.
var Profile = policies.Profile{
	Name:        "slack",
	Credentials: []string{"Authorization"},
	Scopes: []policies.Scope{
		{Name: ScopeToken, Value: token},
		{Name: ScopeTier1, Value: methodOf(1)},
		{Name: ScopeTier2, Value: methodOf(2)},
		{Name: ScopeTier3, Value: methodOf(3)},
		{Name: ScopeTier4, Value: methodOf(4)},
		{Name: ScopeOtherMethod, Value: methodOf(0)},
		{Name: ScopeChannel, Value: func(*http.Request) string { return "" }},
		{Name: ScopeHistory, Value: func(r *http.Request) string {
			if m := method(r); m == "conversations.history" || m == "conversations.replies" {
				return m
			}
			return ""
		}},
	},
	Read: fields.HeedUnavailable(read),
}

func token(r *http.Request) string {
	return fields.Caller(r)
}

// method returns the last element of the path: /api/chat.postMessage. Any other path may be that of a webhook, which is a secret: its
// fingerprint stands for it, and it is counted separately.
func method(r *http.Request) string {
	if strings.Contains(r.URL.Path, "/api/") {
		return path.Base(r.URL.Path)
	}
	return "webhook-" + fields.Fingerprint("/"+r.URL.Path)
}

func methodOf(tier int) func(*http.Request) string {
	return func(r *http.Request) string {
		if m := method(r); TierOf(m) == tier {
			return m
		}
		return ""
	}
}

// policyNames are the policies by tier.
var policyNames = [...]string{PolicyOtherMethod, PolicyTier1, PolicyTier2, PolicyTier3, PolicyTier4}

func read(r *policies.Reply) policies.Reading {
	if r.Status != http.StatusTooManyRequests {
		return policies.Reading{}
	}
	f := policies.Feedback{
		Source: "429", Refused: true, Policies: []string{policyNames[TierOf(method(r.Request))]}, Otherwise: policies.TheCall,
	}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Source, f.Wait = "Retry-After", wait
	}
	return policies.Reading{Verdict: policies.Limited, Feedback: []policies.Feedback{f}}
}
