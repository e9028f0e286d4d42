package google

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// failure is the body of an error, in the older form (errors) or the newer one (status and details); some have both.
//
// Sources: https://developers.google.com/workspace/calendar/api/guides/errors and https://google.aip.dev/193
type failure struct {
	Error struct {
		Status  string `json:"status"`
		Message string `json:"message"`
		Errors  []struct {
			Domain string `json:"domain"`
			Reason string `json:"reason"`
		} `json:"errors"`
		Details []struct {
			Type       string `json:"@type"`
			Reason     string `json:"reason"`
			RetryDelay string `json:"retryDelay"`
		} `json:"details"`
	} `json:"error"`
}

// cause is which limit refused a call, and where the reply reports it; the zero cause is none.
type cause struct {
	source, policy string
	verdict        policies.Verdict
}

// parse reads an error's body. A body that is not JSON, or is truncated, reports nothing.
func parse(body []byte) failure {
	var f failure
	if json.Unmarshal(body, &f) != nil {
		return failure{}
	}
	return f
}

func (f *failure) cause() cause {
	for _, e := range f.Error.Errors {
		if e.Domain != "usageLimits" {
			continue
		}
		switch e.Reason {
		case "rateLimitExceeded":
			if strings.HasPrefix(f.Error.Message, userRate) {
				return cause{e.Reason, PolicyUser, policies.Limited}
			}
			return cause{e.Reason, PolicyProject, policies.Limited}
		case "userRateLimitExceeded":
			return cause{e.Reason, PolicyUser, policies.Limited}
		case "quotaExceeded", "dailyLimitExceeded":
			return cause{e.Reason, LimitDaily, policies.Spent}
		}
	}
	for _, d := range f.Error.Details {
		if strings.HasSuffix(d.Type, "/google.rpc.ErrorInfo") && d.Reason == "RATE_LIMIT_EXCEEDED" {
			return cause{d.Reason, PolicyProject, policies.Limited}
		}
	}
	if f.Error.Status == "RESOURCE_EXHAUSTED" {
		return cause{f.Error.Status, PolicyProject, policies.Limited}
	}
	return cause{}
}

// Gmail sends messages such as "User-rate limit exceeded.  Retry after 2024-11-12T11:16:42.247Z", with the reason rateLimitExceeded. Google
// does not document them. Source: https://github.com/googleapis/google-api-ruby-client/issues/20544
const (
	userRate   = "User-rate limit exceeded" // the limit of one user, whatever the reason is
	retryAfter = "Retry after "             // what follows is an instant
)

// delay returns how long RetryInfo requests to wait: a duration of Protocol Buffers in JSON, which is decimal seconds with an s, such as
// "3s" or "0.5s". Without RetryInfo, the message may name an instant, which is compared with now.
func (f *failure) delay(now time.Time) (wait time.Duration, source string, ok bool) {
	for _, d := range f.Error.Details {
		if !strings.HasSuffix(d.Type, "/google.rpc.RetryInfo") {
			continue
		}
		if seconds, ok := strings.CutSuffix(d.RetryDelay, "s"); ok {
			wait, ok = fields.Seconds(seconds)
			return wait, "RetryInfo", ok
		}
	}
	if _, instant, found := strings.Cut(f.Error.Message, retryAfter); found {
		instant, _, _ = strings.Cut(instant, " ")
		wait, ok = fields.ISO8601(instant, now)
		return wait, "Retry after", ok
	}
	return 0, "", false
}
