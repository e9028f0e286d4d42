package ietf

import (
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is the generic profile. It reads no scopes from requests, and every call costs 1.
var Profile = policies.Profile{
	Name: "ietf",
	Peek: peek,
	Read: read,
}

// PolicyOperation is the name of the policy for calls to one operation whose rate x-amzn-RateLimit-Limit reports. Declare it with the
// endpoint scope of package transport:
//
//	policies.PerSecond(1).Burst(5).Per(transport.ScopeEndpoint).Named(ietf.PolicyOperation)
const PolicyOperation = "operation"

// maxProblem is how much of a problem is read: 4 KiB, many times the examples of the draft.
const maxProblem = 4 << 10

// year is the longest reset that is accepted. No documented quota is longer than a month; a larger number is one of another form, such as
// an instant in place of seconds from now.
const year = 365 * 24 * time.Hour

// A limit is what a reply reports about one limit.
type limit struct {
	name       string // "" if it has none
	calls      bool   // it counts calls, and not, for example, bytes
	quota      policies.Count
	window     time.Duration
	remaining  policies.Count
	unreported bool // its form reports what remains, but this reply does not: a refusal then means that nothing does
	reset      time.Duration
	source     string // of the counts
	resetIn    string // source of the reset
}

func peek(r *http.Response) int {
	if r.StatusCode != http.StatusTooManyRequests && r.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	media, _, err := mime.ParseMediaType(fields.Get(r.Header, "Content-Type"))
	if err != nil || media != "application/problem+json" { // RFC 9457 section 3
		return 0
	}
	return maxProblem
}

func read(r *policies.Reply) policies.Reading {
	wait, requested := fields.RetryAfter(r.Header, r.Now)
	reported := limits(r)
	reading := policies.Reading{}
	switch r.Status {
	case http.StatusTooManyRequests:
		f := refusal(reported, violated(r.Body))
		if requested {
			f = policies.Feedback{Policies: violated(r.Body), Wait: wait, Source: "Retry-After"}
		}
		f.Refused = true
		reading.Verdict = policies.Limited
		reading.Feedback = append(reading.Feedback, meant(f))
	case http.StatusServiceUnavailable:
		if wait > 0 {
			f := policies.Feedback{Policies: violated(r.Body), Wait: wait, Source: "Retry-After"}
			reading.Feedback = append(reading.Feedback, meant(f))
		}
	}
	for i := range reported {
		l := &reported[i]
		if requested && l.spent() { // the draft: Retry-After MUST take precedence over the reset
			l.reset = min(l.reset, wait)
		}
		if f, ok := l.counts(); ok {
			reading.Feedback = append(reading.Feedback, f)
		}
	}
	if f, ok := operation(r.Header); ok {
		reading.Feedback = append(reading.Feedback, f)
	}
	return reading
}

// meant sets which calls a feedback affects if the stack has none of the policies that it names.
func meant(f policies.Feedback) policies.Feedback {
	if len(f.Policies) > 0 {
		f.Otherwise = policies.Unknown
	}
	return f
}

// refusal returns how long to wait after a 429 without Retry-After: until the latest reset of the limits that have nothing left or do not
// report what is left. If the reply names violated policies, other named limits do not count.
func refusal(reported []limit, violated []string) policies.Feedback {
	f := policies.Feedback{Policies: violated, Source: "429"}
	for i := range reported {
		l := &reported[i]
		if !l.spent() && !l.unreported || l.reset <= f.Wait {
			continue
		}
		if len(violated) > 0 && l.name != "" && !slices.Contains(violated, l.name) {
			continue
		}
		f.Wait, f.Source = l.reset, l.resetIn
		if len(violated) == 0 {
			f.Policies = l.policies()
		}
	}
	return f
}

// spent reports whether the reply reports that nothing is left.
func (l *limit) spent() bool {
	n, reported := l.remaining.Value()
	return reported && n == 0
}

// policies returns the name as that of a policy, if it can be one.
func (l *limit) policies() []string {
	if !policies.ValidName(l.name) {
		return nil
	}
	return []string{l.name}
}

// counts returns what the reply reports about the limit; false if the limit is not about calls or the reply reports no number.
func (l *limit) counts() (policies.Feedback, bool) {
	f := policies.Feedback{Policies: l.policies(), Limit: l.quota, Window: l.window, Remaining: l.remaining, Source: l.source}
	_, limited := l.quota.Value()
	_, counted := l.remaining.Value()
	if counted { // the reset belongs to what remains
		f.Reset = l.reset
	}
	return meant(f), l.calls && (limited || counted)
}

// known are the fields of which a reply must have one to report anything about limits.
var known = [...]string{
	"Ratelimit", "Ratelimit-Policy",
	"Ratelimit-Remaining", "Ratelimit-Limit", "Ratelimit-Reset", "Ratelimit-Resettime",
	"X-Ratelimit-Remaining", "X-Ratelimit-Limit", "X-Ratelimit-Reset", "X-Ratelimit-Resettime", "X-Ratelimit-Reset-After", "X-Ratelimit-Retry-After",
	"X-Rate-Limit-Remaining", "X-Rate-Limit-Limit", "X-Rate-Limit-Reset", "X-Rate-Limit-Resettime",
}

// silent reports whether a reply has no field about limits, like most replies.
func silent(h http.Header) bool {
	for _, name := range known {
		if len(h[name]) > 0 {
			return false
		}
	}
	return true
}

// limits returns what the fields of a reply report, in their order. A reply from a cache reports nothing.
func limits(r *policies.Reply) []limit {
	if silent(r.Header) || fields.Cached(r.Header) {
		return nil
	}
	quotas := parseQuotas(fields.Values(r.Header, "Ratelimit-Policy"))
	reported := structured(r.Header, quotas)
	if len(reported) == 0 {
		reported = dictionary(r.Header, quotas)
	}
	if len(reported) == 0 {
		reported = triples(r.Header, quotas, fields.Now(r.Header, r.Now))
	}
	for i := range quotas {
		if q := &quotas[i]; !q.joined {
			reported = append(reported, q.limit("RateLimit-Policy"))
		}
	}
	return reported
}
