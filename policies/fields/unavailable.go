package fields

import (
	"net/http"

	"github.com/headway-go/headway/policies"
)

// HeedUnavailable returns a function that reads as the given one does, and also heeds a 503 with a Retry-After (RFC 9110 section
// 15.6.4), if that function read no wait from it: the widest scope that binds the call waits. Nothing says that a limit refused
// the call, or that it was not processed, so status and method decide whether to repeat it.
func HeedUnavailable(read func(*policies.Reply) policies.Reading) func(*policies.Reply) policies.Reading {
	return func(r *policies.Reply) policies.Reading {
		reading := read(r)
		if r.Status != http.StatusServiceUnavailable || reading.Verdict != policies.Unjudged {
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
