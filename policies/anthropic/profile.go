package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is the profile of Anthropic's API.
var Profile = policies.Profile{
	Name:        "anthropic",
	Credentials: []string{"X-Api-Key", "Authorization"},
	Scopes:      []policies.Scope{{Name: ScopeKey, Value: key}, {Name: ScopeModel, Value: model}},
	Costs:       costs,
	Peek:        peek,
	Read:        fields.HeedUnavailable(read),
	Settle:      settle,
}

func key(r *http.Request) string {
	return fields.Fingerprint(r.Header.Get("X-Api-Key") + "\n" + fields.Credential(r.Header))
}

// model returns the model that a request names, followed by " fast" in fast mode, which has limits of its own; "" if the request counts
// tokens, which also has limits of its own.
// Sources: https://docs.anthropic.com/en/docs/build-with-claude/token-counting and
// https://platform.claude.com/docs/en/build-with-claude/fast-mode
func model(r *http.Request) string {
	if countsTokens(r) {
		return ""
	}
	var q struct {
		Model string `json:"model"`
		Speed string `json:"speed"`
	}
	_, _ = fields.RequestJSON(r, &q) // no model if it cannot be read
	if q.Model != "" && q.Speed == "fast" {
		return q.Model + fastMode
	}
	return q.Model
}

const fastMode = " fast"

func countsTokens(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/count_tokens") }

const (
	// bytesPerToken is this package's own rule of thumb for English text.
	bytesPerToken = 4
	// maxEstimate is the highest estimate: more than any model's context.
	maxEstimate = 10_000_000
)

// costs returns what a call costs besides one request: an estimate of its input, and for the output what earlier answers had. Anthropic
// counts output as it is produced, and max_tokens only bounds it. Until enough answers are known, the output is estimated at one token.
// Source: https://docs.anthropic.com/en/api/rate-limits
func costs(r *http.Request) []policies.Cost {
	if r.Body == nil || r.Body == http.NoBody {
		return []policies.Cost{{Policy: PolicyInputTokens}, {Policy: PolicyOutputTokens}}
	}
	var q struct {
		MaxTokens int64 `json:"max_tokens"`
	}
	length, _ := fields.RequestJSON(r, &q)
	input := min(max(1, length/bytesPerToken), maxEstimate)
	most := min(max(0, q.MaxTokens), maxEstimate)
	return []policies.Cost{
		{Policy: PolicyInputTokens, N: input},
		{Policy: PolicyOutputTokens, N: 1, Learned: policies.Learned{Times: 1, Most: most}},
	}
}

// maxError is how much of an error is read.
const maxError = 4 << 10

func peek(r *http.Response) int {
	if r.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	return maxError
}

// dimension is what the fields of a reply report about one limit.
type dimension struct {
	policy, field    string
	words            string // how a message names it
	limit, remaining policies.Count
}

func dimensions(r *policies.Reply) []dimension {
	all := []dimension{
		{policy: PolicyRequests, field: "Anthropic-Ratelimit-Requests", words: "requests per minute"},
		{policy: PolicyInputTokens, field: "Anthropic-Ratelimit-Input-Tokens", words: "input tokens per minute"},
		{policy: PolicyOutputTokens, field: "Anthropic-Ratelimit-Output-Tokens", words: "output tokens per minute"},
	}
	if fields.Get(r.Header, "Anthropic-Fast-Input-Tokens-Limit") != "" && strings.HasSuffix(model(r.Request), fastMode) {
		all[1].field, all[2].field = "Anthropic-Fast-Input-Tokens", "Anthropic-Fast-Output-Tokens"
	}
	for i := range all {
		d := &all[i]
		if n, ok := fields.Number(fields.Get(r.Header, d.field+"-Limit")); ok && n > 0 {
			d.limit = policies.Reported(n)
		}
		if n, ok := fields.Number(fields.Get(r.Header, d.field+"-Remaining")); ok {
			d.remaining = policies.Reported(n)
		}
	}
	return all
}

func read(r *policies.Reply) policies.Reading {
	all := dimensions(r)
	var reading policies.Reading
	if r.Status == http.StatusTooManyRequests {
		var reported struct {
			Error apiError `json:"error"`
		}
		_ = json.Unmarshal(r.Body, &reported) // an unreadable body reports nothing
		if reported.Error.aboutMoney() {
			return policies.Reading{Verdict: policies.Spent}
		}
		reading.Verdict = policies.Limited
		if strings.EqualFold(strings.TrimSpace(fields.Get(r.Header, "X-Should-Retry")), "false") { // as the vendor's SDKs read it
			reading.Verdict = policies.Spent
		}
		reading.Feedback = append(reading.Feedback, refusal(r, all, reported.Error.Message))
	}
	if fields.Cached(r.Header) || countsTokens(r.Request) {
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

// apiError is what the body of an error reports.
type apiError struct {
	Message string `json:"message"`
	Details struct {
		Code string `json:"error_code"`
	} `json:"details"`
}

// aboutMoney reports whether a 429 is about what the organization may spend in a month. The wording of the message is as Anthropic sends it.
// Source of the code: https://platform.claude.com/docs/en/api/rate-limits
func (e *apiError) aboutMoney() bool {
	return e.Details.Code == "enforced_spend_limit_reached" || strings.Contains(e.Message, "spend limit")
}

// refusal returns which of the limits refused the call, and how long to wait.
func refusal(r *policies.Reply, all []dimension, message string) policies.Feedback {
	f := policies.Feedback{Source: "429", Refused: true, Otherwise: policies.TheCall}
	meant := concerned(all, message)
	for _, d := range meant {
		f.Policies = append(f.Policies, d.policy)
	}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Source, f.Wait = "Retry-After", wait
		return f
	}
	for _, d := range meant {
		if reset, ok := fields.Wait(fields.Get(r.Header, d.field+"-Reset"), fields.Now(r.Header, r.Now)); ok && d.spent() && reset > f.Wait {
			f.Source, f.Wait = "anthropic-ratelimit-reset", reset
		}
	}
	return f
}

// spent reports whether nothing was left.
func (d *dimension) spent() bool {
	n, reported := d.remaining.Value()
	return reported && n == 0
}

// concerned returns the limits that a refusal is about: those that its message names, otherwise those that have nothing left, otherwise
// all. The message takes precedence because the remaining tokens are reported in thousands. Its wording is as Anthropic sends it; the
// documentation only states that it describes which limit was exceeded.
func concerned(all []dimension, message string) []*dimension {
	var named, spent []*dimension
	every := make([]*dimension, 0, len(all))
	for i := range all {
		d := &all[i]
		every = append(every, d)
		if strings.Contains(message, d.words) {
			named = append(named, d)
		}
		if d.spent() {
			spent = append(spent, d)
		}
	}
	switch {
	case len(named) > 0:
		return named
	case len(spent) > 0:
		return spent
	}
	return every
}
