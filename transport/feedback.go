package transport

import (
	"net/http"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies/fields"
)

// RetryAfter is the default [FeedbackFunc]: a 429 (RFC 6585 section 4) or a 503 (RFC 9110 section 15.6.4)
// with a valid Retry-After asks for a pause. A field that is malformed is ignored. See [fields.RetryAfter]
// for the forms that are understood.
func RetryAfter(resp *http.Response) (pacer.Feedback, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return pacer.Feedback{}, false
	}
	wait, ok := fields.RetryAfter(resp.Header, time.Now())
	return pacer.Feedback{RetryAfter: wait}, ok
}
