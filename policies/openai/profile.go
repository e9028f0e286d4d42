package openai

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is OpenAI's.
var Profile = policies.Profile{
	Name:   "openai",
	Scopes: []policies.Scope{{Name: ScopeProject, Value: project}, {Name: ScopeModel, Value: model}},
	Costs:  costs,
	Peek:   peek,
	Read:   read,
	Settle: settle,
}

func project(r *http.Request) string {
	return fields.Fingerprint(strings.Join([]string{
		r.Header.Get("Authorization"), r.Header.Get("Api-Key"), r.Header.Get("Openai-Organization"), r.Header.Get("Openai-Project"), r.URL.Hostname(),
	}, "\n"))
}

// request is what of a request counts.
type request struct {
	Model               string `json:"model"`
	MaxTokens           int64  `json:"max_tokens"`
	MaxCompletionTokens int64  `json:"max_completion_tokens"`
	MaxOutputTokens     int64  `json:"max_output_tokens"`
}

func model(r *http.Request) string {
	var q request
	_, _ = fields.RequestJSON(r, &q) // no model if it cannot be read
	return q.Model
}

// bytesPerToken is the rule of thumb for a prompt in English.
// Source: https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them
const bytesPerToken = 4

// maxEstimate is the most that an estimate is believed: more than any model's context.
const maxEstimate = 10_000_000

// costs are one request, and an estimate of tokens: the prompt's, and the most that the answer may have.
func costs(r *http.Request) []policies.Cost {
	var q request
	length, _ := fields.RequestJSON(r, &q)
	tokens := max(0, length) / bytesPerToken
	tokens += min(max(0, q.MaxTokens, q.MaxCompletionTokens, q.MaxOutputTokens), maxEstimate)
	if r.Body != nil && r.Body != http.NoBody {
		tokens = max(1, tokens)
	}
	tokens = min(max(0, tokens), maxEstimate)
	return []policies.Cost{{Policy: PolicyTokens, N: tokens}, {Policy: PolicyTokensDay, N: tokens}}
}

// maxError is how much of an error is looked at.
const maxError = 4 << 10

func peek(r *http.Response) int {
	if r.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	return maxError
}

// dimension is requests or tokens, as the fields of a reply tell it.
type dimension struct {
	policy, name     string
	limit, remaining policies.Count
	reset            time.Duration
}

func dimensions(h http.Header) []dimension {
	all := []dimension{{policy: PolicyRequests, name: "Requests"}, {policy: PolicyTokens, name: "Tokens"}}
	for i := range all {
		d := &all[i]
		if n, ok := fields.Number(h.Get("X-Ratelimit-Limit-" + d.name)); ok && n > 0 {
			d.limit = policies.Said(n)
		}
		if n, ok := fields.Number(h.Get("X-Ratelimit-Remaining-" + d.name)); ok {
			d.remaining = policies.Said(n)
		}
		d.reset, _ = fields.Duration(h.Get("X-Ratelimit-Reset-" + d.name))
	}
	return all
}

func read(r *policies.Reply) policies.Reading {
	all := dimensions(r.Header)
	var reading policies.Reading
	if r.Status == http.StatusTooManyRequests {
		var said struct {
			Error struct {
				Code    string `json:"code"`
				Type    string `json:"type"`
				Message string `json:"message"`
			} `json:"error"`
		}
		_ = json.Unmarshal(r.Body, &said) // what cannot be read says nothing
		if said.Error.Code == "insufficient_quota" || said.Error.Type == "insufficient_quota" {
			return policies.Reading{Verdict: policies.Spent}
		}
		reading.Verdict = policies.Limited
		reading.Feedback = append(reading.Feedback, refusal(r, all, said.Error.Message))
	}
	if fields.Cached(r.Header) {
		return reading
	}
	for i := range all {
		d := &all[i]
		f := policies.Feedback{Source: "x-ratelimit-" + strings.ToLower(d.name), Policies: []string{d.policy}, Otherwise: policies.TheCall}
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

// refusal says which of the dimensions refused, and how long it takes.
func refusal(r *policies.Reply, all []dimension, message string) policies.Feedback {
	f := policies.Feedback{Source: "429", Refused: true, Otherwise: policies.TheCall}
	var reset time.Duration
	for i := range all {
		if n, said := all[i].remaining.Value(); said && n == 0 {
			f.Policies = append(f.Policies, all[i].policy)
			reset = max(reset, all[i].reset)
		}
	}
	if len(f.Policies) == 0 {
		switch {
		case strings.Contains(message, "tokens per"), strings.Contains(message, "TPM"), strings.Contains(message, "TPD"):
			f.Policies = []string{PolicyTokens}
		case strings.Contains(message, "requests per"), strings.Contains(message, "RPM"), strings.Contains(message, "RPD"):
			f.Policies = []string{PolicyRequests}
		default:
			f.Policies = []string{PolicyRequests, PolicyTokens}
		}
	}
	if wait, ok := fields.Milliseconds(r.Header.Get("Retry-After-Ms")); ok {
		f.Source, f.Wait = "retry-after-ms", wait
	} else if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Source, f.Wait = "Retry-After", wait
	} else if reset > 0 {
		f.Source, f.Wait = "x-ratelimit-reset", reset
	}
	return f
}
