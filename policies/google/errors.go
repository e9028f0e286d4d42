package google

import (
	"encoding/json"
	"regexp"
	"slices"
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
			Metadata   struct {
				Limit string `json:"quota_limit"`
				Unit  string `json:"quota_unit"`
			} `json:"metadata"`
			Violations []struct {
				ID string `json:"quotaId"`
			} `json:"violations"`
		} `json:"details"`
	} `json:"error"`
}

// cause is which limit refused a call, and where the reply reports it; the zero cause is none. Without a policy, no other call is affected.
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

// domains are those whose reasons may be about limits: that of quotas, the default one, and YouTube's.
// Source: https://developers.google.com/search/apis/indexing-api/v3/core-errors
var domains = []string{"usageLimits", "global", "youtube.quota"} //nolint:gochecknoglobals // a constant table

func (f *failure) cause() cause {
	for _, e := range f.Error.Errors {
		if !slices.Contains(domains, e.Domain) {
			continue
		}
		switch strings.TrimSuffix(e.Reason, "Unreg") { // of a caller without a key
		case "rateLimitExceeded", "servingLimitExceeded", "concurrentLimitExceeded":
			return f.named(e.Reason)
		case "userRateLimitExceeded":
			return cause{e.Reason, PolicyUser, policies.Limited}
		case "quotaExceeded", "dailyLimitExceeded", "variableTermLimitExceeded", "variableTermExpiredDailyExceeded":
			return cause{e.Reason, LimitDaily, policies.Spent}
		}
	}
	for _, d := range f.Error.Details {
		switch {
		case !strings.HasSuffix(d.Type, "/google.rpc.ErrorInfo"):
		case d.Reason == "RATE_LIMIT_EXCEEDED":
			return f.named(d.Reason)
		case d.Reason == "RESOURCE_QUOTA_EXCEEDED": // too many resources exist, such as virtual machines: no time changes that
			return cause{source: d.Reason, verdict: policies.Spent}
		}
	}
	if f.Error.Status == "RESOURCE_EXHAUSTED" {
		return f.named(f.Error.Status)
	}
	return cause{}
}

// Messages of Google, which it does not document: "User-rate limit exceeded.  Retry after 2024-11-12T11:16:42.247Z" (Gmail), and "Quota
// exceeded for quota metric 'Queries' and limit 'Queries per minute per user' of service 'gmail.googleapis.com' …" (all APIs). Their reason
// is rateLimitExceeded, whichever limit they name.
// Sources: https://github.com/googleapis/google-api-ruby-client/issues/20544 and https://github.com/SpiderStrategies/node-gmail-api/issues/43
const (
	userRate   = "User-rate limit exceeded"
	retryAfter = "Retry after " // what follows is an instant
)

// namedLimit matches the limit that a message names.
var namedLimit = regexp.MustCompile(`limit '[^']*'`)

// The period and the user in the names and units of limits, such as 'Queries per day', "GenerateRequestsPerDayPerProjectPerModel" (a
// quotaId), "defaultPerMinutePerUser" (a quota_limit), "1/d/{project}" (a quota_unit), and of older services "CLIENT_PROJECT-1d" and
// "USER-100s". Google documents the form of units; the names are as its services send them.
// Sources: https://github.com/googleapis/googleapis/blob/master/google/api/quota.proto,
// https://developers.google.com/analytics/devguides/reporting/core/v4/errors, https://github.com/burnash/gspread/issues/583 and
// https://github.com/google-gemini/gemini-cli/issues/8437
var (
	perDay  = regexp.MustCompile(`(?i)per ?day|\b1/d\b|-1d\b`)
	perUser = regexp.MustCompile(`(?i)per ?user|\{user\}|USER-[0-9]+s`)
)

// limits returns the names and units of the limits that a refusal reports, one a line.
func (f *failure) limits() string {
	names := []string{namedLimit.FindString(f.Error.Message)}
	for i := range f.Error.Details {
		d := &f.Error.Details[i]
		names = append(names, d.Metadata.Limit, d.Metadata.Unit)
		for _, v := range d.Violations {
			names = append(names, v.ID)
		}
	}
	return strings.Join(names, "\n")
}

// named returns the cause of a refusal whose reason names no limit: that of the limits that the reply names, or the project's. If one of
// several is that of a day, the day is spent.
func (f *failure) named(reason string) cause {
	limits := f.limits()
	switch {
	case perDay.MatchString(limits):
		return cause{reason, LimitDaily, policies.Spent}
	case perUser.MatchString(limits), strings.HasPrefix(f.Error.Message, userRate):
		return cause{reason, PolicyUser, policies.Limited}
	}
	return cause{reason, PolicyProject, policies.Limited}
}

// delay returns how long RetryInfo requests to wait: a duration of Protocol Buffers in JSON, such as "3s" or "0.5s". Without it, the message
// may name an instant, which is compared with now.
func (f *failure) delay(now time.Time) (wait time.Duration, source string, ok bool) {
	for _, d := range f.Error.Details {
		if !strings.HasSuffix(d.Type, "/google.rpc.RetryInfo") {
			continue
		}
		if wait, ok := fields.Wait(d.RetryDelay, now); ok {
			return wait, "RetryInfo", true
		}
	}
	if _, instant, found := strings.Cut(f.Error.Message, retryAfter); found {
		instant, _, _ = strings.Cut(instant, " ")
		wait, ok = fields.Wait(instant, now)
		return wait, "Retry after", ok
	}
	return 0, "", false
}
