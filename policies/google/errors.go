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
		Status string `json:"status"`
		Errors []struct {
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

// cause is which limit refused a call, and where that was said; the zero cause is none.
type cause struct {
	source, policy string
	verdict        policies.Verdict
}

// parse reads an error's body. One that is not JSON, or cut, says nothing.
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

// delay returns how long RetryInfo asks to wait: a duration of Protocol Buffers in JSON, which are decimal seconds with
// an s, such as "3s" or "0.5s".
func (f *failure) delay() (time.Duration, bool) {
	for _, d := range f.Error.Details {
		if !strings.HasSuffix(d.Type, "/google.rpc.RetryInfo") {
			continue
		}
		if seconds, ok := strings.CutSuffix(d.RetryDelay, "s"); ok {
			return fields.Seconds(seconds)
		}
	}
	return 0, false
}
