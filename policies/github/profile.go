package github

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// SecondaryWait is how long calls pause after a refusal by a secondary limit that does not report how long: GitHub requests at least a
// minute.
const SecondaryWait = time.Minute

// Profile is the profile of GitHub's REST and GraphQL APIs.
var Profile = policies.Profile{
	Name:        "github",
	Credentials: []string{"Authorization"},
	Scopes: []policies.Scope{
		{Name: ScopeCore, Value: carriedBy(func(r *http.Request) bool { return resource(r) == PolicyCore })},
		{Name: ScopeSearch, Value: carriedBy(func(r *http.Request) bool { return resource(r) == PolicySearch })},
		{Name: ScopeCodeSearch, Value: carriedBy(func(r *http.Request) bool { return resource(r) == PolicyCodeSearch })},
		{Name: ScopeGraphQL, Value: carriedBy(func(r *http.Request) bool { return resource(r) == PolicyGraphQL })},
		{Name: ScopeREST, Value: carriedBy(func(r *http.Request) bool { return resource(r) != PolicyGraphQL })},
		{Name: ScopeContent, Value: carriedBy(createsContent)},
		{Name: ScopeCredential, Value: fields.Caller},
	},
	Costs:  costs,
	Peek:   peek,
	Read:   fields.HeedUnavailable(read),
	Settle: settle,
}

// path returns the elements of a request's path, without the prefix that GitHub Enterprise Server has.
func path(r *http.Request) []string {
	p := strings.Trim(strings.TrimPrefix(r.URL.Path, "/api/v3"), "/")
	return strings.Split(p, "/")
}

// resource returns the resource whose primary limit a request counts against. GitHub Enterprise Server has no separate limit for code
// searches.
func resource(r *http.Request) string {
	switch p := path(r); {
	case p[0] == "graphql", r.URL.Path == "/api/graphql":
		return PolicyGraphQL
	case r.URL.Path == "/search/code":
		return PolicyCodeSearch
	case p[0] == "search":
		return PolicySearch
	}
	return PolicyCore
}

// createsContent reports whether a request creates something that people see and are notified of.
func createsContent(r *http.Request) bool {
	if r.Method != http.MethodPost || resource(r) != PolicyCore {
		return false
	}
	switch p := path(r); p[len(p)-1] {
	case "issues", "comments", "pulls", "reviews", "releases", "discussions", "gists", "replies":
		return true
	}
	return false
}

func carriedBy(is func(*http.Request) bool) func(*http.Request) string {
	return func(r *http.Request) string {
		if !is(r) {
			return ""
		}
		return fields.Caller(r)
	}
}

// costs returns 1 point for a read and 5 for a write, on REST and on GraphQL, where mutations are writes. For a query, it also returns
// about what that costs the primary limit. A query for the limits costs the primary limit nothing. Source:
// https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#calculating-points-for-the-secondary-rate-limit
func costs(r *http.Request) []policies.Cost {
	if resource(r) == PolicyGraphQL {
		points, mutation := queryCosts(r)
		secondary := int64(1)
		if mutation {
			secondary = 5
		}
		return []policies.Cost{{Policy: PolicyGraphQL, N: points}, {Policy: PolicyGraphQLPoints, N: secondary}}
	}
	n := int64(5)
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		n = 1
	}
	if path(r)[0] == "rate_limit" {
		return []policies.Cost{{Policy: PolicyCore}, {Policy: PolicyPoints, N: n}}
	}
	return []policies.Cost{{Policy: PolicyPoints, N: n}}
}

// settle returns what a call cost its primary limit: nothing if the reply is 304 and the call carried a credential, and the reported points
// if a query selects its rateLimit { cost }. Every other call costs what it was charged.
// Sources: https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#use-conditional-requests-if-appropriate
// and https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api#returning-the-point-value-of-a-query
func settle(r *policies.Reply) []policies.Cost {
	switch what := resource(r.Request); {
	case r.Status == http.StatusNotModified && r.Request.Header.Get("Authorization") != "":
		return []policies.Cost{{Policy: what}}
	case what != PolicyGraphQL || r.Status != http.StatusOK:
		return []policies.Cost{}
	}
	found := queryCost.FindSubmatch(r.Body)
	if found == nil {
		return nil
	}
	n, ok := fields.Number(string(found[1]))
	if !ok {
		return nil
	}
	return []policies.Cost{{Policy: PolicyGraphQL, N: n}}
}

// queryCost matches the points of a query in its answer.
var queryCost = regexp.MustCompile(`"rateLimit"\s*:\s*\{[^{}]*"cost"\s*:\s*([0-9]+)[\s,}]`)

const (
	// maxError is how much of an error is read.
	maxError = 4 << 10
	// maxQuery is how much of the answer to a query is read. It may have an error for each part of the query.
	maxQuery = policies.MaxPeek
)

func peek(r *http.Response) int {
	if r.StatusCode == http.StatusOK && r.Request != nil && r.Request.URL != nil && resource(r.Request) == PolicyGraphQL {
		return maxQuery
	}
	if r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusTooManyRequests {
		return maxError
	}
	return 0
}

func read(r *policies.Reply) policies.Reading {
	c, counted := countsOf(r)
	var reading policies.Reading
	if f, ok := refusal(r, &c, counted); ok {
		f.Refused = true
		reading.Verdict = policies.Limited
		reading.Feedback = append(reading.Feedback, f)
	}
	if counted && !fields.Cached(r.Header) {
		reading.Feedback = append(reading.Feedback, c)
	}
	return reading
}

// refusal reports whether a limit refused a call, and which.
func refusal(r *policies.Reply, counts *policies.Feedback, counted bool) (policies.Feedback, bool) {
	spent := "" // the resource whose primary limit it is
	if left, _ := counts.Remaining.Value(); counted && left == 0 {
		spent = counts.Policies[0]
	}
	var secondary bool
	switch r.Status {
	case http.StatusForbidden, http.StatusTooManyRequests:
		secondary = r.Status == http.StatusTooManyRequests || speaksOfSecondary(string(r.Body))
	case http.StatusOK:
		var primary bool
		if primary, secondary = graphQLRefused(r); !primary && !secondary {
			return policies.Feedback{}, false
		}
		if primary {
			spent = PolicyGraphQL
		}
	default:
		return policies.Feedback{}, false
	}
	// If no primary limit refused the call, a secondary one did, perhaps that of calls at once. This affects all calls of the credential.
	f := policies.Feedback{Certain: spent == ""} // clients that continue may be banned
	if spent != "" {
		f.Policies, f.Otherwise = []string{spent}, otherwise(spent)
	}
	wait, requested := fields.RetryAfter(r.Header, r.Now)
	switch {
	case requested:
		f.Source, f.Wait = "Retry-After", wait
	case spent != "" && counted:
		f.Source, f.Wait = "X-RateLimit-Reset", counts.Reset
	case spent != "": // GraphQL did not report until when
		f.Source, f.Wait = "RATE_LIMITED", SecondaryWait
	case secondary:
		f.Source, f.Wait = "secondary rate limit", SecondaryWait
	default:
		return f, false // about permissions
	}
	return f, true
}

// otherwise returns which calls a refusal affects if the stack does not have the policy of its resource. All calls but a few count against
// core; when one of the other resources is spent, all other calls continue.
func otherwise(resource string) policies.Otherwise {
	if resource == PolicyCore {
		return policies.Everyone
	}
	return policies.TheCall
}

// speaksOfSecondary reports whether a message or the address of its documentation is that of a secondary limit, whose older name is the
// abuse detection mechanism.
// Sources: https://github.com/ossf/scorecard/issues/206 and https://github.com/google/go-github/blob/master/github/github.go
func speaksOfSecondary(message string) bool {
	message = strings.ReplaceAll(strings.ToLower(message), "-", " ")
	return strings.Contains(message, "secondary rate limit") || strings.Contains(message, "abuse detection mechanism") ||
		strings.Contains(message, "#abuse rate limits")
}

// graphQLRefused reports whether a reply with 200 is a refusal. An error of a reply that has data may quote anything, so its message does
// not count.
// Source: https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api#exceeding-the-rate-limit
func graphQLRefused(r *policies.Reply) (primary, secondary bool) {
	if resource(r.Request) != PolicyGraphQL {
		return false, false
	}
	errors, hasData := graphQLErrors(r.Body)
	for _, e := range errors {
		switch {
		case e.Type == "RATE_LIMITED", e.Type == "RATE_LIMIT": // the second is not documented, but has been seen
			primary = true
		case !hasData && speaksOfSecondary(e.Message):
			secondary = true
		}
	}
	return primary, secondary
}

// graphQLError is one error in the answer to a query.
type graphQLError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// graphQLErrors returns the errors of an answer, as far as the body goes, and whether the answer also has data.
func graphQLErrors(body []byte) (errors []graphQLError, hasData bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			break
		}
		if key != "errors" {
			var value any
			if d.Decode(&value) != nil {
				return errors, hasData || key == "data" // the body ends within it
			}
			hasData = hasData || key == "data" && value != nil
			continue
		}
		if open, err := d.Token(); err != nil || open != json.Delim('[') {
			break
		}
		for d.More() {
			var e graphQLError
			if d.Decode(&e) != nil {
				return errors, hasData
			}
			errors = append(errors, e)
		}
		if _, err := d.Token(); err != nil {
			break
		}
	}
	return errors, hasData
}

// countsOf reads the primary limit of the resource that a reply names.
func countsOf(r *policies.Reply) (policies.Feedback, bool) {
	f := policies.Feedback{Source: "X-RateLimit", Otherwise: policies.TheCall, Window: time.Hour}
	name := strings.TrimSpace(fields.Get(r.Header, "X-Ratelimit-Resource"))
	if name == "" {
		name = resource(r.Request)
	}
	if !policies.ValidName(name) {
		return f, false
	}
	f.Policies = []string{name}
	switch name {
	case PolicyCore, PolicyGraphQL:
	case PolicySearch, PolicyCodeSearch:
		f.Window = time.Minute
	default:
		f.Window = 0 // not documented for the others
	}
	limit, limited := fields.Number(fields.Get(r.Header, "X-Ratelimit-Limit"))
	remaining, counted := fields.Number(fields.Get(r.Header, "X-Ratelimit-Remaining"))
	reset, resets := fields.Wait(fields.Get(r.Header, "X-Ratelimit-Reset"), fields.Now(r.Header, r.Now))
	if !counted || !resets || limited && limit == 0 || !limited && fields.Get(r.Header, "X-Ratelimit-Limit") != "" {
		return f, false
	}
	f.Remaining, f.Reset = policies.Reported(remaining), reset
	if limited { // a proxy may have dropped it
		f.Limit = policies.Reported(limit)
	} else {
		f.Window = 0
	}
	return f, true
}
