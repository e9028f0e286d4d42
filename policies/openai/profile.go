package openai

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is the profile of OpenAI's API.
var Profile = policies.Profile{
	Name:        "openai",
	Credentials: []string{"Authorization", "Api-Key"},
	Scopes:      []policies.Scope{{Name: ScopeProject, Value: project}, {Name: ScopeModel, Value: model}},
	Costs:       costs,
	Peek:        peek,
	Read:        fields.HeedUnavailable(read),
	Settle:      settle,
}

// Reserved is the profile for services with OpenAI's API that meter what a request reserves rather than what its answer uses. It learns
// nothing from answers, and no answer corrects a charge. Only calls that failed or were refused cost no tokens. A call is charged for its
// prompt and for max_tokens of each answer: Azure adds the two. OpenAI documents the larger one, which is never more than the sum.
// Sources: https://learn.microsoft.com/en-us/azure/ai-foundry/openai/how-to/quota, https://platform.openai.com/docs/guides/rate-limits
var Reserved = reserved()

func reserved() policies.Profile {
	p := Profile
	p.Costs = func(r *http.Request) []policies.Cost {
		all := costs(r)
		for i := range all {
			all[i].Learned = policies.Learned{}
		}
		return all
	}
	p.Settle = func(r *policies.Reply) []policies.Cost {
		if c, failed := free(r); failed {
			return c
		}
		return []policies.Cost{}
	}
	return p
}

func project(r *http.Request) string {
	return fields.Fingerprint(strings.Join([]string{
		fields.Credential(r.Header), r.Header.Get("Api-Key"), r.Header.Get("Openai-Organization"), r.Header.Get("Openai-Project"), r.URL.Hostname(),
	}, "\n"))
}

// request is the part of a request that determines its model and its cost.
type request struct {
	Model               string `json:"model"`
	MaxTokens           int64  `json:"max_tokens"`
	MaxCompletionTokens int64  `json:"max_completion_tokens"`
	MaxOutputTokens     int64  `json:"max_output_tokens"`
	N                   int64  `json:"n"`
}

// maxAnswers is how many answers one request may request.
// Source: https://platform.openai.com/docs/api-reference/chat/create#chat-create-n
const maxAnswers = 128

func model(r *http.Request) string {
	var q request
	_, _ = fields.RequestJSON(r, &q) // no model if it cannot be read
	return q.Model
}

// bytesPerToken is the rule of thumb for a prompt in English.
// Source: https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them
const bytesPerToken = 4

// maxEstimate is the highest estimate: more than any model's context.
const maxEstimate = 10_000_000

// costs returns what a call costs besides one request: an estimate of its tokens, those of the prompt and the most that each answer may
// have. Their sum is the most that a call can use. The real use is learned. Without max_tokens, nothing is charged for an answer until that
// is known. Source: https://platform.openai.com/docs/guides/rate-limits
func costs(r *http.Request) []policies.Cost {
	var q request
	length, _ := fields.RequestJSON(r, &q)
	prompt := min(max(0, length)/bytesPerToken, maxEstimate)
	answer := min(max(0, q.MaxTokens, q.MaxCompletionTokens, q.MaxOutputTokens), maxEstimate)
	answers := min(max(1, q.N), maxAnswers)
	tokens := prompt + answer*answers
	if r.Body != nil && r.Body != http.NoBody {
		tokens = max(1, tokens)
	}
	tokens = min(tokens, maxEstimate)
	if tokens == 0 {
		return []policies.Cost{{Policy: PolicyTokens}, {Policy: PolicyTokensDay}}
	}
	how := policies.Learned{Known: prompt, Times: answers, Most: maxEstimate}
	if answer > 0 {
		how.Most = tokens
	}
	return []policies.Cost{{Policy: PolicyTokens, N: tokens, Learned: how}, {Policy: PolicyTokensDay, N: tokens, Learned: how}}
}

// maxError is how much of an error is read.
const maxError = 4 << 10

func peek(r *http.Response) int {
	if r.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	return maxError
}

// dimension is requests or tokens, as the fields of a reply report them.
type dimension struct {
	policy, name     string
	limit, remaining policies.Count
	reset            time.Duration
}

// dimensions returns what the fields of a reply report. If the project has a limit of tokens of its own, the one with less left counts.
// Source: https://developers.openai.com/api/docs/guides/rate-limits
func dimensions(h http.Header, now time.Time) []dimension {
	all := []dimension{{policy: PolicyRequests, name: "Requests"}, {policy: PolicyTokens, name: "Tokens"}, {policy: PolicyTokens, name: "Project-Tokens"}}
	for i := range all {
		d := &all[i]
		for _, prefix := range []string{"X-Rate-Limit-", "X-Ratelimit-"} { // Azure sends some with the first
			if n, ok := fields.Number(fields.Get(h, prefix+"Limit-"+d.name)); ok && n > 0 {
				d.limit = policies.Reported(n)
			}
			if n, ok := fields.Number(fields.Get(h, prefix+"Remaining-"+d.name)); ok {
				d.remaining = policies.Reported(n)
			}
			if wait, ok := fields.Wait(fields.Get(h, prefix+"Reset-"+d.name), now); ok {
				d.reset = wait
			}
		}
	}
	less := 1
	if left, reported := all[2].remaining.Value(); reported {
		if other, reported := all[1].remaining.Value(); !reported || left < other {
			less = 2
		}
	}
	return []dimension{all[0], all[less]}
}

// apiError is what the body of an error reports.
type apiError struct {
	Code    string `json:"code"`
	Type    string `json:"type"`
	Message string `json:"message"`
}

// money are the codes of refusals that are about money, not pace. The type of all may be the first.
// Sources: https://developers.openai.com/api/docs/guides/error-codes and
// https://help.openai.com/en/articles/5955604-troubleshooting-api-rate-limits-and-429-errors
var money = []string{
	"insufficient_quota", "credit_balance_exhausted", "organization_usage_limit_exceeded", "organization_spend_limit_exceeded",
	"project_spend_limit_exceeded",
}

// hopeless reports whether a refusal cannot be helped by waiting: it is about money, or the request has more tokens than a minute.
// Source of the message, which is not documented: https://github.com/Aider-AI/aider/issues/1880
func (e *apiError) hopeless() bool {
	return slices.Contains(money, e.Code) || slices.Contains(money, e.Type) || strings.HasPrefix(e.Message, "Request too large")
}

func read(r *policies.Reply) policies.Reading {
	all := dimensions(r.Header, fields.Now(r.Header, r.Now))
	var reading policies.Reading
	if r.Status == http.StatusTooManyRequests {
		var reported struct {
			Error apiError `json:"error"`
		}
		_ = json.Unmarshal(r.Body, &reported) // an unreadable body reports nothing
		reading.Verdict = policies.Limited
		if strings.EqualFold(strings.TrimSpace(fields.Get(r.Header, "X-Should-Retry")), "false") { // as the vendor's SDKs read it
			reading.Verdict = policies.Spent
		}
		if reported.Error.hopeless() {
			reading.Verdict = policies.Spent
		} else {
			reading.Feedback = append(reading.Feedback, refusal(r, all, &reported.Error))
		}
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

// refusal returns which of the policies refused the call, and how long to wait.
func refusal(r *policies.Reply, all []dimension, e *apiError) policies.Feedback {
	f := policies.Feedback{Source: "429", Policies: concerned(all, e), Refused: true, Otherwise: policies.TheCall}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Source, f.Wait = "Retry-After", wait
		return f
	}
	for i := range all {
		d := &all[i]
		if d.spent() && d.reset > f.Wait && slices.Contains(f.Policies, d.policy) {
			f.Source, f.Wait = "x-ratelimit-reset", d.reset
		}
	}
	return f
}

// spent reports whether nothing was left.
func (d *dimension) spent() bool {
	n, reported := d.remaining.Value()
	return reported && n == 0
}

// concerned returns the policies that a refusal is about: those of the day if its message names the day, otherwise those that have nothing
// left, otherwise those that its type or message names, otherwise requests and tokens. A refusal by the limit of a day also names the limit
// of a minute, because a stack need not have both. The wording is as OpenAI sends it, and is not documented.
func concerned(all []dimension, e *apiError) []string {
	switch {
	case mentions(e.Message, "tokens per day", "tokens_usage_based per day", "(TPD)"):
		return []string{PolicyTokensDay, PolicyTokens}
	case mentions(e.Message, "requests per day", "(RPD)"):
		return []string{PolicyRequestsDay, PolicyRequests}
	}
	var spent []string
	for i := range all {
		if all[i].spent() {
			spent = append(spent, all[i].policy)
		}
	}
	switch {
	case len(spent) > 0:
		return spent
	case e.Type == "tokens", e.Type == "tokens_usage_based", mentions(e.Message, "tokens per min", "tokens_usage_based per min", "(TPM)"):
		return []string{PolicyTokens}
	case e.Type == "requests", mentions(e.Message, "requests per min", "(RPM)"):
		return []string{PolicyRequests}
	}
	return []string{PolicyRequests, PolicyTokens}
}

func mentions(message string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(message, w) })
}
