package msgraph

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is the profile of Microsoft Graph and SharePoint.
var Profile = policies.Profile{
	Name:        "msgraph",
	Credentials: []string{"Authorization"},
	Scopes: []policies.Scope{
		{Name: ScopeTenant, Value: carriedBy(func(*http.Request) bool { return true })},
		{Name: ScopeIdentity, Value: carriedBy(goesTo(ScopeIdentity))},
		{Name: ScopeIdentityWrites, Value: carriedBy(writes)},
		{Name: ScopeReports, Value: carriedBy(goesTo(ScopeReports))},
		{Name: ScopeSharePoint, Value: carriedBy(goesTo(ScopeSharePoint))},
		{Name: ScopeMailbox, Value: mailbox},
	},
	Costs:  costs,
	Read:   read,
	Settle: settle,
}

// overBandwidth is the status of an app that has transferred too much (Bandwidth Limit Exceeded).
// Source: https://learn.microsoft.com/graph/errors
const overBandwidth = 509

// Sources: https://learn.microsoft.com/graph/throttling and, for SharePoint,
// https://devblogs.microsoft.com/microsoft365dev/prevent-throttling-in-your-application-by-using-ratelimit-headers-in-sharepoint-online/
func read(r *policies.Reply) policies.Reading {
	var reading policies.Reading
	wait, requested := fields.RetryAfter(r.Header, r.Now)
	counts, counted := countsOf(r)
	switch {
	case r.Status == http.StatusTooManyRequests, r.Status == overBandwidth,
		r.Status == http.StatusServiceUnavailable && requested && service(r.Request) == ScopeSharePoint:
		f := bucketOf(r)
		f.Refused = true
		switch left, _ := counts.Remaining.Value(); {
		case requested:
			f.Source, f.Wait = "Retry-After", wait
		case counted && left == 0:
			f.Source, f.Wait = "RateLimit-Reset", counts.Reset
		}
		reading.Verdict = policies.Limited
		reading.Feedback = append(reading.Feedback, f)
	case r.Status == http.StatusServiceUnavailable && requested:
		f := bucketOf(r)
		f.Source, f.Wait = "Retry-After", wait
		reading.Feedback = append(reading.Feedback, f)
	}
	if counted && !fields.Cached(r.Header) {
		reading.Feedback = append(reading.Feedback, counts)
	}
	return reading
}

// bucketOf returns whose limit refused a call: the one that x-ms-throttle-scope reports, as <Scope>/<Limit>/<ids>, such as
// Tenant_Application/ReadWrite/…; otherwise that of the service. All limits of Outlook are of one mailbox.
// Source: https://learn.microsoft.com/graph/throttling-limits#throttled-responses-requests
func bucketOf(r *policies.Reply) policies.Feedback {
	whose, rest, _ := strings.Cut(strings.TrimSpace(fields.Get(r.Header, "X-Ms-Throttle-Scope")), "/")
	limit, _, _ := strings.Cut(rest, "/")
	f := policies.Feedback{Source: "429", Policies: []string{PolicyTenant}, Otherwise: policies.Everyone}
	switch s := service(r.Request); {
	case whose == "Application":
		f.Policies = []string{PolicyGlobal}
	case s == ScopeMailbox && whose == "" && r.Status == http.StatusTooManyRequests:
		f.Policies = []string{PolicyMailbox, PolicyTenant}
	case whose == "Tenant", s == "", s == ScopeMailbox:
	case s == ScopeIdentity && limit == "Write" && writes(r.Request):
		f.Policies, f.Otherwise = []string{PolicyIdentityWrites}, policies.TheCall
	default:
		f.Policies, f.Otherwise = []string{s}, policies.TheCall
	}
	if r.Status != http.StatusTooManyRequests {
		f.Source = strconv.Itoa(r.Status)
	}
	return f
}

// countsOf reads what SharePoint reports about its limit. RateLimit-Limit may be a list, whose first item is the limit that is closest to
// being reached (draft-ietf-httpapi-ratelimit-headers-03).
func countsOf(r *policies.Reply) (policies.Feedback, bool) {
	f := policies.Feedback{Source: "RateLimit", Policies: []string{PolicySharePoint}, Otherwise: policies.TheCall}
	first, _, _ := strings.Cut(fields.Get(r.Header, "Ratelimit-Limit"), ",")
	limit, ok1 := fields.Number(first)
	remaining, ok2 := fields.Number(fields.Get(r.Header, "Ratelimit-Remaining"))
	reset, ok3 := fields.Wait(fields.Get(r.Header, "Ratelimit-Reset"), fields.Now(r.Header, r.Now))
	if !ok1 || !ok2 || !ok3 || limit == 0 || service(r.Request) != ScopeSharePoint {
		return f, false
	}
	f.Limit, f.Remaining, f.Reset = policies.Reported(limit), policies.Reported(remaining), reset
	return f, true
}
