package atlassian

import (
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// LimitUnavailable is the limit of a 503 with Retry-After. No policy has this name, so only that call waits.
const LimitUnavailable = "unavailable"

// Profile is the profile of Jira Cloud's REST API.
var Profile = policies.Profile{Name: "atlassian", Scopes: scopes(), Read: read}

func read(r *policies.Reply) policies.Reading {
	var reading policies.Reading
	wait, requested := fields.RetryAfter(r.Header, r.Now)
	if !requested {
		wait, _ = fields.Wait(fields.Get(r.Header, "X-Ratelimit-Reset"), fields.Now(r.Header, r.Now))
	}
	switch {
	case r.Status == http.StatusTooManyRequests:
		f := meant(r)
		f.Refused, f.Wait = true, wait
		reading.Verdict, reading.Feedback = policies.Limited, append(reading.Feedback, f)
	case r.Status == http.StatusServiceUnavailable && requested:
		reading.Feedback = append(reading.Feedback, policies.Feedback{
			Source: "Retry-After", Policies: []string{LimitUnavailable}, Otherwise: policies.TheCall, Wait: wait,
		})
	}
	if fields.Cached(r.Header) {
		return reading
	}
	if n, ok := pool(r.Header); ok {
		reading.Feedback = append(reading.Feedback, policies.Feedback{
			Source: "Beta-RateLimit", Policies: []string{PolicyApp}, Otherwise: policies.TheCall, Remaining: policies.Reported(n),
		})
	}
	limit, first := fields.Number(fields.Get(r.Header, "X-Ratelimit-Limit"))
	remaining, second := fields.Number(fields.Get(r.Header, "X-Ratelimit-Remaining"))
	reason := fields.Get(r.Header, "Ratelimit-Reason")
	if first && second && limit > 0 && (reason == "" || reason == "jira-burst-based") {
		reading.Feedback = append(reading.Feedback, policies.Feedback{
			Source: "X-RateLimit-Limit", Policies: []string{bucket(r.Request)}, Otherwise: policies.TheCall,
			Limit: policies.Reported(limit), Remaining: policies.Reported(remaining),
		})
	}
	return reading
}

func bucket(r *http.Request) string {
	if writes(r) {
		return PolicyWrites
	}
	return PolicyReads
}

// meant returns which limit a refusal names. A refusal that names none is about the bucket, which every call has.
func meant(r *policies.Reply) policies.Feedback {
	f := policies.Feedback{Source: "RateLimit-Reason", Otherwise: policies.TheCall}
	switch strings.TrimSpace(fields.Get(r.Header, "Ratelimit-Reason")) {
	case "jira-quota-global-based":
		f.Policies, f.Otherwise = []string{PolicyApp}, policies.Everyone
	case "jira-quota-tenant-based":
		f.Policies, f.Otherwise = []string{PolicyTenant}, policies.Everyone
	case "jira-per-issue-on-write":
		f.Policies = []string{PolicyIssue, PolicyIssueBurst}
	case "jira-burst-based":
		f.Policies = []string{bucket(r.Request)}
	default:
		f.Source, f.Policies = "429", []string{bucket(r.Request)}
	}
	return f
}

// pool returns what is left of the app's pool, from Beta-RateLimit: "global-app-quota";r=500;t=3200. Without r, plenty is left, and ok is
// false.
func pool(h http.Header) (left int64, ok bool) {
	lines := fields.Values(h, "Beta-Ratelimit")
	if len(lines) == 0 {
		return 0, false
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return 0, false
	}
	for _, member := range list {
		item, isItem := member.(httpsfv.Item)
		if !isItem || item.Value != PolicyApp {
			continue
		}
		r, has := item.Params.Get("r")
		if n, isInt := r.(int64); has && isInt && n >= 0 {
			return n, true
		}
	}
	return 0, false
}
