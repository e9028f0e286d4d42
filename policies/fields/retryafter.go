package fields

import (
	"net/http"
	"strings"
	"time"
)

// maxValues is how many bytes the values of a field may have: many times what any service documents.
const maxValues = 4 << 10

// Values returns the values of a response's field; none if they have more than 4 KiB in all. A profile that reads fields with Values and
// [Get] spends little time on a reply, whatever an upstream sends.
func Values(h http.Header, name string) []string {
	values := h.Values(name)
	n := len(values)
	for _, v := range values {
		n += len(v)
	}
	if n > maxValues {
		return nil
	}
	return values
}

// Get returns the first of the [Values] of a field; "" if there is none.
func Get(h http.Header, name string) string {
	if values := Values(h, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// RetryAfter reads the Retry-After field of a response and returns how long to wait from now on, in any form that [Wait] reads. RFC 9110
// section 10.2.3 has seconds and HTTP dates; Shopify sends "2.0", Zoom RFC 3339. It compares an instant with the response's own Date if
// there is one ([Now]). Of several fields, the longest wait counts. The same is true for one field in which a proxy has joined several,
// such as "120, 120".
//
// It ignores values in none of these forms (negative, garbage). If no valid value is left, ok is false.
//
// Retry-After-Ms and X-Ms-Retry-After-Ms (Azure) report milliseconds, and precede Retry-After, which is the same rounded up. A 0 there
// counts as absent, as in OpenAI's SDK.
// Sources: https://github.com/openai/openai-python/blob/main/src/openai/_base_client.py and
// https://github.com/Azure/azure-sdk-for-go/blob/main/sdk/azcore/internal/shared/constants.go
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if wait, ok = Milliseconds(Get(h, name)); ok && wait > 0 {
			return wait, true
		}
	}
	values := Values(h, "Retry-After")
	if len(values) == 0 {
		return 0, false
	}
	now = Now(h, now)
	for _, v := range values {
		if d, valid := Wait(v, now); valid {
			wait, ok = max(wait, d), true
		} else if len(v) <= maxText {
			for one := range strings.SplitSeq(v, ",") {
				if d, valid := Wait(one, now); valid {
					wait, ok = max(wait, d), true
				}
			}
		}
	}
	return wait, ok
}

// Now returns the upstream's own time, from the Date of its response, so that waits until an instant are right even if the clocks of client
// and server differ. Without a valid Date it returns now.
func Now(h http.Header, now time.Time) time.Time {
	if date, ok := instant(strings.TrimSpace(Get(h, "Date"))); ok {
		return date
	}
	return now
}

// Cached reports whether a response comes from a cache (RFC 9111 section 5.1): what it reports about limits is then old, and was meant for
// another client. If several caches left an Age, one positive Age is enough. A cache in the client itself (httpcache) sets X-From-Cache.
//
// Source: https://github.com/gregjones/httpcache/blob/master/httpcache.go
func Cached(h http.Header) bool {
	if Get(h, "X-From-Cache") == "1" {
		return true
	}
	for _, v := range Values(h, "Age") {
		for one := range strings.SplitSeq(v, ",") {
			if age, ok := Number(one); ok && age > 0 {
				return true
			}
		}
	}
	return false
}
