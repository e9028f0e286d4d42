package zendesk

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is the profile of Zendesk's Support and Help Center APIs.
var Profile = policies.Profile{Name: "zendesk", Scopes: scopes(), Read: fields.HeedUnavailable(read)}

// prefix begins the names of the fields about endpoints. Source:
// https://developer.zendesk.com/api-reference/introduction/rate-limits/#endpoint-rate-limits
const prefix = "Zendesk-Ratelimit-"

// counter is one limit as a field of a reply reports it.
type counter struct {
	policy           string
	total, remaining int64
	resets           time.Duration
	source           string
}

func read(r *policies.Reply) policies.Reading {
	c := callOf(r.Request)
	now := fields.Now(r.Header, r.Now)
	counters := endpointsOf(r.Header, now)
	acct, known := accountOf(r.Header, c, now)
	var reading policies.Reading
	if r.Status == http.StatusTooManyRequests {
		reading.Verdict = policies.Limited
		reading.Feedback = append(reading.Feedback, refusal(r, c, counters, acct, known))
	}
	if fields.Cached(r.Header) {
		return reading
	}
	if known {
		reading.Feedback = append(reading.Feedback, acct.feedback(policies.Everyone))
	}
	for _, one := range counters {
		reading.Feedback = append(reading.Feedback, one.feedback(policies.TheCall))
	}
	return reading
}

func (c *counter) feedback(otherwise policies.Otherwise) policies.Feedback {
	f := policies.Feedback{
		Source: c.source, Policies: []string{c.policy}, Otherwise: otherwise,
		Limit: policies.Reported(c.total), Remaining: policies.Reported(c.remaining), Reset: c.resets,
	}
	switch c.policy {
	case PolicyAccount, PolicyHelpCenter, PolicyTicketsIndex, "tickets-index-pagination", PolicyTicketsIndexDeep, PolicyTicketsUpdate,
		PolicyIncrementalExports, PolicyUser, "search-index":
		f.Window = time.Minute
	}
	return f
}

// refusal returns which limit refused a call, and how long to wait. The account's counter may not be known.
func refusal(r *policies.Reply, c call, counters []counter, acct counter, known bool) policies.Feedback {
	f := policies.Feedback{Source: "429", Refused: true, Policies: []string{acct.policy}, Otherwise: policies.Everyone}
	reset := acct.resets
	if known && acct.remaining > 0 {
		for _, one := range counters {
			if one.remaining == 0 {
				f.Policies, f.Otherwise, reset = []string{one.policy}, policies.TheCall, one.resets
				break
			}
		}
		if f.Otherwise == policies.Everyone && c.updatesTickets() {
			f.Policies, f.Otherwise, reset = []string{PolicyTicket}, policies.TheCall, 0
		}
	}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Source, f.Wait = "Retry-After", wait
	} else {
		f.Wait = reset
	}
	return f
}

// accountOf reads the account's counter: X-Rate-Limit and X-Rate-Limit-Remaining, or RateLimit-Limit and RateLimit-Remaining, with
// RateLimit-Reset. It reports false if there is none.
func accountOf(h http.Header, of call, now time.Time) (counter, bool) {
	c := counter{policy: PolicyAccount, source: "X-Rate-Limit"}
	if of.helpCenter() {
		c.policy = PolicyHelpCenter
	}
	c.resets, _ = fields.Wait(fields.Get(h, "Ratelimit-Reset"), now)
	for _, names := range [][2]string{{"X-Rate-Limit", "X-Rate-Limit-Remaining"}, {"Ratelimit-Limit", "Ratelimit-Remaining"}} {
		total, first := fields.Number(fields.Get(h, names[0]))
		remaining, second := fields.Number(fields.Get(h, names[1]))
		if first && second && total > 0 {
			c.total, c.remaining, c.source = total, remaining, names[0]
			return c, true
		}
	}
	return c, false
}

// policyOf returns the policy of the limit that a field's name has.
func policyOf(bucket string) string {
	if bucket == "create-update-user" {
		return PolicyUser
	}
	return bucket
}

// maxEndpoints is how many counters of endpoints a reply may have: more than Zendesk documents.
const maxEndpoints = 32

// endpointsOf reads the endpoints' counters, in the order of their names; none if there are too many.
func endpointsOf(h http.Header, now time.Time) []counter {
	var names []string
	for name := range h {
		if strings.HasPrefix(http.CanonicalHeaderKey(name), prefix) {
			names = append(names, name)
		}
	}
	if len(names) > maxEndpoints {
		return nil
	}
	slices.Sort(names)
	var all []counter
	for _, name := range names {
		bucket := strings.TrimSuffix(strings.ToLower(name[len(prefix):]), "-cursor")
		if !policies.ValidName(bucket) {
			continue
		}
		c := counter{policy: policyOf(bucket), source: "Zendesk-RateLimit-" + bucket}
		seen := 0
		for key, value := range fields.Pairs(fields.Get(h, name), ";") {
			var valid bool
			switch key {
			case "total":
				c.total, valid = fields.Number(value)
			case "remaining":
				c.remaining, valid = fields.Number(value)
			case "resets":
				c.resets, valid = fields.Wait(value, now)
			default:
				continue
			}
			if !valid {
				seen = -3
			}
			seen++
		}
		if c.policy == PolicyTicketsUpdate && c.total <= ticketUpdates {
			c.policy = PolicyTicket // of a ticket: no account may update so few a minute
		}
		if seen == 3 && c.total > 0 {
			all = append(all, c)
		}
	}
	return all
}
