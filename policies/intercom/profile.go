package intercom

import (
	"net/http"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is the profile of Intercom's API.
var Profile = policies.Profile{
	Name:        "intercom",
	Credentials: []string{"Authorization"},
	Scopes: []policies.Scope{
		{Name: ScopeApp, Value: app},
		{Name: ScopeWorkspace, Value: func(*http.Request) string { return "" }},
	},
	Read: fields.HeedUnavailable(read),
}

func app(r *http.Request) string {
	return fields.Caller(r)
}

func read(r *policies.Reply) policies.Reading {
	limit, first := fields.Number(fields.Get(r.Header, "X-Ratelimit-Limit"))
	remaining, second := fields.Number(fields.Get(r.Header, "X-Ratelimit-Remaining"))
	reset, third := fields.Wait(fields.Get(r.Header, "X-Ratelimit-Reset"), fields.Now(r.Header, r.Now))
	var reading policies.Reading
	if r.Status == http.StatusTooManyRequests {
		f := policies.Feedback{Source: "429", Policies: []string{PolicyApp}, Otherwise: policies.Everyone, Refused: true, Wait: window}
		if third {
			f.Source, f.Wait = "X-RateLimit-Reset", reset
		}
		if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
			f.Source, f.Wait = "Retry-After", wait
		}
		reading.Verdict, reading.Feedback = policies.Limited, append(reading.Feedback, f)
	}
	if first && second && third && limit > 0 && !fields.Cached(r.Header) {
		reading.Feedback = append(reading.Feedback, policies.Feedback{
			Source: "X-RateLimit-Limit", Policies: []string{PolicyApp}, Otherwise: policies.Everyone,
			Limit: policies.Reported(limit), Window: window, Remaining: policies.Reported(remaining), Reset: reset,
		})
	}
	return reading
}
