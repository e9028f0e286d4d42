package fields

import (
	"net/http"

	"github.com/headway-go/headway/policies"
)

// overloaded is the status of a service that has too much to do.
// Sources: https://developers.notion.com/reference/request-limits and https://docs.anthropic.com/en/api/errors
const overloaded = 529

// HeedUnavailable returns a function that reads a reply as the given one does, and also respects a 503 (RFC 9110 section 15.6.4) or a 529
// with a Retry-After, if that function returned no wait and no verdict for it: the widest scope that binds the call waits. Such a reply does
// not report that a limit refused the call, or that the call was not processed. So status and method decide whether to repeat it.
func HeedUnavailable(read func(*policies.Reply) policies.Reading) func(*policies.Reply) policies.Reading {
	return func(r *policies.Reply) policies.Reading {
		reading := read(r)
		if r.Status != http.StatusServiceUnavailable && r.Status != overloaded || reading.Verdict != policies.Unjudged {
			return reading
		}
		for i := range reading.Feedback {
			if reading.Feedback[i].Wait > 0 {
				return reading
			}
		}
		if wait, ok := RetryAfter(r.Header, r.Now); ok && wait > 0 {
			reading.Feedback = append(reading.Feedback, policies.Feedback{Source: "Retry-After", Wait: wait})
		}
		return reading
	}
}
