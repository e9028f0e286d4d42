package fields

import (
	"net/http"
	"strings"
	"time"
)

// RetryAfter reads the Retry-After field of a response and returns how long to wait from now on. It accepts delay-seconds and the three
// HTTP dates of RFC 9110 sections 10.2.3 and 5.6.7, seconds with decimals, as Shopify sends them ("2.0"), and instants of RFC 3339, as seen
// at Zoom. It compares a date with the response's own Date if there is one ([Now]). A time in the past is a wait of 0. Of several fields,
// the longest wait counts. The same is true for one field in which a proxy has joined several, such as "120, 120".
//
// It ignores values in none of these forms (negative, garbage). If no valid value is left, ok is false.
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	values := h.Values("Retry-After")
	if len(values) == 0 {
		return 0, false
	}
	now = Now(h, now)
	for _, v := range values {
		if d, valid := retryAfter(v, now); valid {
			wait, ok = max(wait, d), true
			continue
		}
		for one := range strings.SplitSeq(v, ",") {
			if d, valid := Seconds(one); valid && len(v) <= maxField {
				wait, ok = max(wait, d), true
			}
		}
	}
	return wait, ok
}

// retryAfter reads one value of a Retry-After field.
func retryAfter(s string, now time.Time) (time.Duration, bool) {
	if d, ok := Seconds(s); ok {
		return d, true
	}
	if d, ok := HTTPDate(s, now); ok {
		return d, true
	}
	return ISO8601(strings.TrimSpace(s), now)
}

// Now returns the upstream's own time, from the Date of its response, so that waits until an instant are right even if the clocks of client
// and server differ. Without a valid Date it returns now.
func Now(h http.Header, now time.Time) time.Time {
	if date, ok := httpDate(h.Get("Date")); ok {
		return date
	}
	return now
}

// Cached reports whether a response comes from a cache (RFC 9111 section 5.1): what it reports about limits is then old, and was meant for
// another client. If several caches left an Age, one positive Age is enough.
func Cached(h http.Header) bool {
	for _, v := range h["Age"] {
		for one := range strings.SplitSeq(v, ",") {
			if age, ok := Number(one); ok && age > 0 {
				return true
			}
		}
	}
	return false
}
