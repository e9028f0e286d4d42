package atlassian

import (
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
	"github.com/headway-go/headway/policies/ietf"
)

// LimitUnavailable is the limit of a 5xx with Retry-After. No policy has this name, so only that call waits.
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
	case r.Status >= http.StatusInternalServerError && requested:
		reading.Feedback = append(reading.Feedback, policies.Feedback{
			Source: "Retry-After", Policies: []string{LimitUnavailable}, Otherwise: policies.TheCall, Wait: wait,
		})
	}
	if fields.Cached(r.Header) {
		return reading
	}
	reading.Feedback = append(reading.Feedback, quotas(r)...)
	limit, first := fields.Number(fields.Get(r.Header, "X-Ratelimit-Limit"))
	remaining, second := fields.Number(fields.Get(r.Header, "X-Ratelimit-Remaining"))
	// Without a refusal, only X-RateLimit-NearLimit: true distinguishes a quota's counts, which the structured fields name, from a bucket's.
	near := strings.EqualFold(strings.TrimSpace(fields.Get(r.Header, "X-Ratelimit-Nearlimit")), "true")
	reason := fields.Get(r.Header, "Ratelimit-Reason")
	if first && second && limit > 0 && !near && (reason == "" || strings.HasSuffix(strings.TrimSpace(reason), burst)) {
		reading.Feedback = append(reading.Feedback, policies.Feedback{
			Source: "X-RateLimit-Limit", Policies: []string{bucket(r.Request)}, Otherwise: policies.TheCall,
			Limit: policies.Reported(limit), Window: time.Second, Remaining: policies.Reported(remaining),
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

// burst ends the name of the limit of the bucket, in reasons and in structured fields.
const burst = "burst-based"

// meant returns which limit a refusal names. Jira's reasons begin with "jira-", and Confluence's with "confluence-" or "conf-". A refusal
// that names none is about the bucket, which every call has.
func meant(r *policies.Reply) policies.Feedback {
	f := policies.Feedback{Source: "RateLimit-Reason", Otherwise: policies.TheCall}
	_, reason, _ := strings.Cut(strings.TrimSpace(fields.Get(r.Header, "Ratelimit-Reason")), "-")
	switch strings.TrimPrefix(reason, "quota-") {
	case "global-based":
		f.Policies, f.Otherwise = []string{PolicyApp}, policies.Everyone
	case "tenant-based":
		f.Policies, f.Otherwise = []string{PolicyTenant}, policies.Everyone
	case "per-issue-on-write":
		f.Policies = []string{PolicyIssue, PolicyIssueBurst}
	case burst:
		f.Policies = []string{bucket(r.Request)}
	default:
		f.Source, f.Policies = "429", []string{bucket(r.Request)}
	}
	return f
}

// quotas returns what the structured fields report about limits that are enforced: RateLimit-Policy: "global-app-quota";q=65000;w=3600 and
// RateLimit: "global-app-quota";r=500;t=3200. Without r, plenty is left, and only the limit is reported. Names that begin with Beta-
// are those of limits that do not refuse calls yet.
func quotas(r *policies.Reply) []policies.Feedback {
	standard := policies.Reply{Request: r.Request, Status: http.StatusOK, Now: r.Now, Header: http.Header{
		"Ratelimit": r.Header["Ratelimit"], "Ratelimit-Policy": r.Header["Ratelimit-Policy"],
	}}
	all := ietf.Profile.Read(&standard).Feedback
	for i := range all {
		f := &all[i]
		if len(f.Policies) == 0 {
			continue
		}
		f.Otherwise = policies.TheCall
		switch name := f.Policies[0]; {
		case name == "tenant-app-quota":
			f.Policies = []string{PolicyTenant}
		case strings.HasSuffix(name, burst):
			f.Policies = []string{bucket(r.Request)}
		}
	}
	return all
}
