package transport

import (
	"net/http"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

var generic = policies.Profile{Read: func(r *policies.Reply) policies.Reading {
	wait, ok := fields.RetryAfter(r.Header, r.Now)
	switch {
	case r.Status == http.StatusTooManyRequests:
		return policies.Reading{Verdict: policies.Limited, Feedback: []policies.Feedback{{Refused: true, Wait: wait, Source: "Retry-After"}}}
	case r.Status == http.StatusServiceUnavailable && ok:
		return policies.Reading{Feedback: []policies.Feedback{{Wait: wait, Source: "Retry-After"}}}
	}
	return policies.Reading{}
}}
