package salesforce

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Salesforce does not report how long to wait. These waits are this package's own choice.
const (
	// DailyProbe is how long calls pause when the allocation is spent. It becomes available again little by little, so that a call now and
	// then finds the first of it.
	DailyProbe = 15 * time.Minute
	// ConcurrentWait is how long calls pause when one was refused because too many long calls were running. In a stack without
	// [Concurrent], only the refused call waits.
	ConcurrentWait = 5 * time.Second
)

// Profile is the profile of Salesforce's REST API.
var Profile = policies.Profile{
	Name:   "salesforce",
	Scopes: []policies.Scope{{Name: ScopeOrg, Value: org}},
	Peek:   peek,
	Read:   fields.HeedUnavailable(read),
}

func org(r *http.Request) string { return strings.ToLower(r.URL.Hostname()) }

// maxError is how much of an error is read; errors are short.
const maxError = 4 << 10

func peek(r *http.Response) int {
	if r.StatusCode != http.StatusForbidden {
		return 0
	}
	return maxError
}

// usage is the field that reports how much of the allocation is used.
// Source: https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/headers_api_usage.htm
const usage = "Sforce-Limit-Info"

func read(r *policies.Reply) policies.Reading {
	used, limit, reported := usageOf(r.Header)
	var reading policies.Reading
	if message, ok := refusal(r); ok {
		if daily(message, reported && used >= limit) {
			reading.Verdict = policies.Spent
			reading.Feedback = append(reading.Feedback, policies.Feedback{
				Source: "REQUEST_LIMIT_EXCEEDED", Policies: []string{PolicyDaily}, Otherwise: policies.Everyone, Refused: true, Wait: DailyProbe,
			})
		} else {
			reading.Verdict = policies.Limited
			reading.Feedback = append(reading.Feedback, policies.Feedback{
				Source: "REQUEST_LIMIT_EXCEEDED", Policies: []string{PolicyConcurrent}, Otherwise: policies.TheCall, Refused: true, Wait: ConcurrentWait,
			})
		}
	}
	if reported && !fields.Cached(r.Header) {
		reading.Feedback = append(reading.Feedback, policies.Feedback{
			Source: usage, Policies: []string{PolicyDaily}, Otherwise: policies.Everyone,
			Limit: policies.Reported(limit), Window: 24 * time.Hour, Used: policies.Reported(used),
		})
	}
	return reading
}

// usageOf reads "api-usage=10018/100000"; the field may have other pairs, too.
func usageOf(h http.Header) (used, limit int64, ok bool) {
	for key, value := range fields.Pairs(fields.Get(h, usage), ";") {
		if key == "api-usage" {
			used, limit, ok = fields.Fraction(value)
			return used, limit, ok && limit > 0
		}
	}
	return 0, 0, false
}

// refusal returns the message of a refusal by a limit; false if the reply is none.
func refusal(r *policies.Reply) (message string, ok bool) {
	if r.Status != http.StatusForbidden {
		return "", false
	}
	type apiError struct {
		Message   string `json:"message"`
		ErrorCode string `json:"errorCode"`
	}
	var errors []apiError
	if json.Unmarshal(r.Body, &errors) != nil { // one error, with no array around it
		var one apiError
		if json.Unmarshal(r.Body, &one) != nil {
			return "", false
		}
		errors = []apiError{one}
	}
	for _, e := range errors {
		if e.ErrorCode == "REQUEST_LIMIT_EXCEEDED" {
			return e.Message, true
		}
	}
	return "", false
}

// daily reports whether a refusal is about the allocation. If its message names no limit, spent decides: whether the reported usage has
// reached the allocation.
func daily(message string, spent bool) bool {
	switch {
	case strings.Contains(message, "TotalRequests"):
		return true
	case strings.Contains(message, "Concurrent"):
		return false
	}
	return spent
}
