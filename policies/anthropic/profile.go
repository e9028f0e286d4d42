package anthropic

import (
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is Anthropic's.
var Profile = policies.Profile{
	Name:   "anthropic",
	Scopes: []policies.Scope{{Name: ScopeKey, Value: key}, {Name: ScopeModel, Value: model}},
	Costs:  costs,
	Read:   read,
	Settle: settle,
}

func key(r *http.Request) string {
	return fields.Fingerprint(r.Header.Get("X-Api-Key") + "\n" + r.Header.Get("Authorization"))
}

type request struct {
	Model     string `json:"model"`
	MaxTokens int64  `json:"max_tokens"`
}

func model(r *http.Request) string {
	var q request
	_, _ = fields.RequestJSON(r, &q) // no model if it cannot be read
	return q.Model
}

const (
	// bytesPerToken is a rule of thumb for text in English, of this package's own.
	bytesPerToken = 4
	// maxEstimate is the most that an estimate is believed: more than any model's context.
	maxEstimate = 10_000_000
)

func costs(r *http.Request) []policies.Cost {
	var q request
	length, _ := fields.RequestJSON(r, &q)
	input := max(0, length) / bytesPerToken
	if r.Body != nil && r.Body != http.NoBody {
		input = max(1, input)
	}
	return []policies.Cost{
		{Policy: PolicyInputTokens, N: min(input, maxEstimate)},
		{Policy: PolicyOutputTokens, N: min(max(0, q.MaxTokens), maxEstimate)},
	}
}

// dimension is what the fields of a reply say of one limit.
type dimension struct {
	policy, field    string
	limit, remaining policies.Count
}

func dimensions(r *policies.Reply) []dimension {
	all := []dimension{
		{policy: PolicyRequests, field: "Anthropic-Ratelimit-Requests"},
		{policy: PolicyInputTokens, field: "Anthropic-Ratelimit-Input-Tokens"},
		{policy: PolicyOutputTokens, field: "Anthropic-Ratelimit-Output-Tokens"},
	}
	for i := range all {
		d := &all[i]
		if n, ok := fields.Number(r.Header.Get(d.field + "-Limit")); ok && n > 0 {
			d.limit = policies.Said(n)
		}
		if n, ok := fields.Number(r.Header.Get(d.field + "-Remaining")); ok {
			d.remaining = policies.Said(n)
		}
	}
	return all
}

func read(r *policies.Reply) policies.Reading {
	all := dimensions(r)
	var reading policies.Reading
	if r.Status == http.StatusTooManyRequests {
		reading.Verdict = policies.Limited
		reading.Feedback = append(reading.Feedback, refusal(r, all))
	}
	if fields.Cached(r.Header) {
		return reading
	}
	for i := range all {
		d := &all[i]
		f := policies.Feedback{Source: strings.ToLower(d.field), Policies: []string{d.policy}, Otherwise: policies.TheCall}
		if _, ok := d.limit.Value(); ok {
			rate := f
			rate.Limit, rate.Window = d.limit, time.Minute
			reading.Feedback = append(reading.Feedback, rate)
		}
		if _, ok := d.remaining.Value(); ok {
			f.Limit, f.Remaining = d.limit, d.remaining
			reading.Feedback = append(reading.Feedback, f)
		}
	}
	return reading
}

// refusal is of what has nothing left, and of everything if that is not told.
func refusal(r *policies.Reply, all []dimension) policies.Feedback {
	f := policies.Feedback{Source: "429", Refused: true, Otherwise: policies.TheCall}
	var every []string
	var reset time.Duration
	for i := range all {
		every = append(every, all[i].policy)
		if n, said := all[i].remaining.Value(); said && n == 0 {
			f.Policies = append(f.Policies, all[i].policy)
			if d, ok := fields.ISO8601(r.Header.Get(all[i].field+"-Reset"), fields.Now(r.Header, r.Now)); ok {
				reset = max(reset, d)
			}
		}
	}
	if len(f.Policies) == 0 {
		f.Policies = every
	}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Source, f.Wait = "Retry-After", wait
	} else if reset > 0 {
		f.Source, f.Wait = "anthropic-ratelimit-reset", reset
	}
	return f
}
