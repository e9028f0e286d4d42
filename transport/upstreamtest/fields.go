package upstreamtest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Fields states the tightest limit in three header fields, and the time of its reset in a form: [Seconds], [Unix], [Timestamp] or [Duration].
//
//   - GitHub: Fields("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", Unix)
//   - OpenAI: Fields("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests", Duration)
//   - Anthropic: Fields("anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset", Timestamp)
//   - Zendesk: Fields("X-Rate-Limit", "X-Rate-Limit-Remaining", "ratelimit-reset", Seconds)
func Fields(limit, remaining, reset string, form func(at, now time.Time) string) func(http.Header, Reply) {
	return func(h http.Header, r Reply) {
		s := r.Tightest()
		h.Set(limit, strconv.Itoa(s.Limit))
		h.Set(remaining, strconv.Itoa(s.Remaining))
		h.Set(reset, form(s.Reset, r.Now))
	}
}

// RateLimit states all limits in RateLimit and RateLimit-Policy, by the names of [Limit.Named].
// Source: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
func RateLimit(h http.Header, r Reply) {
	left, policy := make([]string, len(r.Limits)), make([]string, len(r.Limits))
	for i, s := range r.Limits {
		left[i] = fmt.Sprintf("%q;r=%d;t=%s", s.Name, s.Remaining, Seconds(s.Reset, r.Now))
		policy[i] = fmt.Sprintf("%q;q=%d;w=%d", s.Name, s.Limit, seconds(s.Period))
	}
	h.Set("Ratelimit", strings.Join(left, ", "))
	h.Set("Ratelimit-Policy", strings.Join(policy, ", "))
}

// Seconds is an instant as whole seconds from now, rounded up.
func Seconds(at, now time.Time) string { return strconv.FormatInt(seconds(at.Sub(now)), 10) }

// Unix is an instant as whole seconds since 1970, rounded up.
func Unix(at, _ time.Time) string { return strconv.FormatInt(at.Add(time.Second-1).Unix(), 10) }

// Timestamp is an instant by RFC 3339, in whole seconds, rounded up.
func Timestamp(at, _ time.Time) string { return at.Add(time.Second - 1).UTC().Format(time.RFC3339) }

// Duration is an instant as a duration from now, such as 1m2s or 20ms, in whole milliseconds, rounded up.
func Duration(at, now time.Time) string {
	return (at.Sub(now) + time.Millisecond - 1).Truncate(time.Millisecond).String()
}

// seconds returns whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
