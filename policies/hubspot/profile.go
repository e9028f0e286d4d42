package hubspot

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

const (
	// DailyProbe is how long calls pause when the day's calls are spent. It is this package's own choice: HubSpot reports no time.
	DailyProbe = 15 * time.Minute
	// interval is the window if the reply does not report it.
	interval = 10 * time.Second
	// LimitLocked is the limit of a 423. No policy has this name, so only that call waits.
	LimitLocked = "locked"
	// locked is how long a lock lasts. Source: https://developers.hubspot.com/docs/api-reference/error-handling
	locked = 2 * time.Second
	// migrating is the status of an account that moves to another data centre, for up to 24 hours. The source is the same page.
	migrating = 477
)

// Profile is the profile of HubSpot's APIs.
var Profile = policies.Profile{
	Name:        "hubspot",
	Credentials: []string{"Authorization"},
	Scopes:      []policies.Scope{{Name: ScopeApp, Value: app}},
	Peek:        fields.PeekRefusal,
	Read:        fields.HeedUnavailable(read),
}

func app(r *http.Request) string {
	return fields.Caller(r)
}

func read(r *policies.Reply) policies.Reading {
	var reading policies.Reading
	window, ok := fields.Milliseconds(fields.Get(r.Header, "X-Hubspot-Ratelimit-Interval-Milliseconds"))
	if !ok || window == 0 {
		window = interval
	}
	switch r.Status {
	case http.StatusTooManyRequests:
		reading = refusal(r, window)
	case http.StatusLocked: // too much was written at once
		reading.Verdict = policies.Limited
		reading.Feedback = []policies.Feedback{{
			Source: "423", Policies: []string{LimitLocked}, Otherwise: policies.TheCall, Refused: true, Wait: locked,
		}}
	case migrating:
		if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
			reading.Feedback = []policies.Feedback{{Source: "Retry-After", Wait: wait}}
		}
	}
	if fields.Cached(r.Header) {
		return reading
	}
	for _, c := range []struct {
		policy, limit, remaining string
		window                   time.Duration
	}{
		{PolicyTenSeconds, "X-Hubspot-Ratelimit-Max", "X-Hubspot-Ratelimit-Remaining", window},
		{PolicyDaily, "X-Hubspot-Ratelimit-Daily", "X-Hubspot-Ratelimit-Daily-Remaining", 24 * time.Hour},
	} {
		limit, first := fields.Number(fields.Get(r.Header, c.limit))
		remaining, second := fields.Number(fields.Get(r.Header, c.remaining))
		if first && second && limit > 0 {
			reading.Feedback = append(reading.Feedback, policies.Feedback{
				Source: c.limit, Policies: []string{c.policy}, Otherwise: policies.TheCall,
				Limit: policies.Reported(limit), Window: c.window, Remaining: policies.Reported(remaining),
			})
		}
	}
	return reading
}

func refusal(r *policies.Reply, window time.Duration) policies.Reading {
	var body struct {
		PolicyName string `json:"policyName"`
		Message    string `json:"message"`
	}
	_ = json.Unmarshal(r.Body, &body) // an unreadable body names no policy
	if body.PolicyName == "" {        // newer errors name it in the message only: "You have reached your ten_secondly_rolling limit."
		name, _ := strings.CutPrefix(body.Message, "You have reached your ")
		name, _, _ = strings.Cut(name, " ")
		body.PolicyName = strings.ToUpper(name)
	}
	verdict := policies.Limited
	f := policies.Feedback{Source: "policyName", Refused: true, Otherwise: policies.Everyone}
	switch body.PolicyName {
	case "DAILY":
		verdict = policies.Spent
		f.Policies, f.Wait = []string{PolicyDaily}, DailyProbe
	case "SECONDLY":
		f.Policies, f.Otherwise, f.Wait = []string{LimitSecond}, policies.TheCall, time.Second
	case "TEN_SECONDLY_ROLLING":
		f.Policies, f.Wait = []string{PolicyTenSeconds}, window
	default:
		f.Source, f.Policies, f.Wait = "429", []string{PolicyTenSeconds}, window
	}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Source, f.Wait = "Retry-After", wait
	}
	return policies.Reading{Verdict: verdict, Feedback: []policies.Feedback{f}}
}
