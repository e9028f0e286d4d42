package shopify

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
	"github.com/headway-go/headway/policies/specs"
)

// QueryCost is how many points are reserved for a query: this package's own estimate of an ordinary one.
const QueryCost = 50

// Profile is the profile of Shopify's Admin API.
var Profile = policies.Profile{
	Name:        "shopify",
	Credentials: []string{"X-Shopify-Access-Token"},
	Scopes: []policies.Scope{
		{Name: ScopeREST, Value: func(r *http.Request) string { return store(r, !isQuery(r)) }},
		{Name: ScopeGraphQL, Value: func(r *http.Request) string { return store(r, isQuery(r)) }},
	},
	Costs:   costs,
	Peek:    peek,
	Read:    fields.HeedUnavailable(read),
	Settle:  settle,
	ReadEnd: readEnd,
}

func isQuery(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/graphql.json") }

func store(r *http.Request, carries bool) string {
	if !carries {
		return ""
	}
	return strings.ToLower(r.URL.Hostname()) + " " + fields.Fingerprint(r.Header.Get("X-Shopify-Access-Token"))
}

func costs(r *http.Request) []policies.Cost {
	if !isQuery(r) {
		return nil
	}
	return []policies.Cost{{Policy: PolicyGraphQL, N: QueryCost}}
}

// maxBody is how much of a query's reply is read. A refusal is short.
const maxBody = 16 << 10

func peek(r *http.Response) int {
	if r.StatusCode != http.StatusOK || r.Request == nil || r.Request.URL == nil || !isQuery(r.Request) {
		return 0
	}
	return maxBody
}

func read(r *policies.Reply) policies.Reading {
	if isQuery(r.Request) {
		return readQuery(r)
	}
	var reading policies.Reading
	if r.Status == http.StatusTooManyRequests {
		f := policies.Feedback{Source: "429", Policies: []string{PolicyREST}, Otherwise: policies.Everyone, Refused: true}
		if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
			f.Source, f.Wait = "Retry-After", wait
		}
		reading.Verdict, reading.Feedback = policies.Limited, append(reading.Feedback, f)
	}
	used, size, ok := fields.Fraction(fields.Get(r.Header, "X-Shopify-Shop-Api-Call-Limit"))
	if ok && size > 0 && !fields.Cached(r.Header) {
		reading.Feedback = append(reading.Feedback, policies.Feedback{
			Source: "X-Shopify-Shop-Api-Call-Limit", Policies: []string{PolicyREST}, Otherwise: policies.Everyone,
			Used: policies.Reported(used), Limit: policies.Reported(size),
		})
	}
	return reading
}

// cost is what a reply reports about a query's cost. Points may be printed with decimals.
type cost struct {
	Requested *float64 `json:"requestedQueryCost"`
	Actual    *float64 `json:"actualQueryCost"`
	Throttle  *status  `json:"throttleStatus"`
}

// status is what a reply reports about the points of a store.
type status struct {
	Maximum   float64 `json:"maximumAvailable"`
	Available float64 `json:"currentlyAvailable"`
	Restore   float64 `json:"restoreRate"`
}

type answer struct {
	Errors []struct {
		Extensions struct {
			Code string `json:"code"`
		} `json:"extensions"`
	} `json:"errors"`
	Extensions struct {
		Cost cost `json:"cost"`
	} `json:"extensions"`
}

// throttled reports whether a query was refused for lack of points.
func (a *answer) throttled() bool {
	for _, e := range a.Errors {
		if e.Extensions.Code == "THROTTLED" {
			return true
		}
	}
	return false
}

func readQuery(r *policies.Reply) policies.Reading {
	var reading policies.Reading
	var a answer
	switch {
	case r.Status == http.StatusTooManyRequests:
		wait, _ := fields.RetryAfter(r.Header, r.Now)
		reading.Verdict = policies.Limited
		reading.Feedback = append(reading.Feedback, policies.Feedback{
			Source: "Retry-After", Policies: []string{PolicyGraphQL}, Otherwise: policies.Everyone, Refused: true, Wait: wait,
		})
		return reading
	case r.Status != http.StatusOK, !r.Complete, json.Unmarshal(r.Body, &a) != nil:
		return reading
	}
	c := &a.Extensions.Cost
	if a.throttled() {
		reading.Verdict = policies.Limited
		reading.Feedback = append(reading.Feedback, policies.Feedback{
			Source: "THROTTLED", Policies: []string{PolicyGraphQL}, Otherwise: policies.Everyone, Refused: true, Wait: c.wait(),
		})
	}
	reading.Feedback = append(reading.Feedback, c.Throttle.feedback(r)...)
	return reading
}

// readEnd reads the points that are left at the end of a long reply.
func readEnd(r *policies.Reply) []policies.Feedback {
	if r.Status != http.StatusOK || !isQuery(r.Request) {
		return nil
	}
	var s *status
	name := []byte(`"throttleStatus":`)
	if at := bytes.LastIndex(r.Body, name); at < 0 || json.NewDecoder(bytes.NewReader(r.Body[at+len(name):])).Decode(&s) != nil {
		return nil
	}
	return s.feedback(r)
}

// feedback returns how many points are restored in a second, and what is left; nothing if s is nil.
func (s *status) feedback(r *policies.Reply) []policies.Feedback {
	if s == nil || fields.Cached(r.Header) {
		return nil
	}
	available, ok := points(s.Available)
	size, sized := points(s.Maximum)
	if !ok || !sized || size == 0 {
		return nil
	}
	f := policies.Feedback{Source: "throttleStatus", Policies: []string{PolicyGraphQL}, Otherwise: policies.Everyone}
	var all []policies.Feedback
	if restored, ok := points(s.Restore); ok && restored > 0 {
		rate := f
		rate.Limit, rate.Window = policies.Reported(restored), time.Second
		all = append(all, rate)
	}
	f.Limit, f.Remaining = policies.Reported(size), policies.Reported(available)
	return append(all, f)
}

// wait returns how long it takes until the points that a query lacked are available; a second if the reply does not report it.
func (c *cost) wait() time.Duration {
	if c.Requested == nil || c.Throttle == nil || c.Throttle.Restore <= 0 {
		return time.Second
	}
	seconds := (*c.Requested - c.Throttle.Available) / c.Throttle.Restore
	if !(seconds > 0) {
		return time.Second
	}
	if seconds >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(math.Ceil(seconds*1000)) * time.Millisecond
}

// points returns a number of points, rounded down; false if it makes no sense.
func points(n float64) (int64, bool) {
	if !(n >= 0 && n <= float64(specs.MaxLimit)) {
		return 0, false
	}
	return int64(n), true
}

// settle finds the actual cost of a query at the end of its reply. If the body is not complete, the last number of that name counts. A
// query that was refused has not run.
func settle(r *policies.Reply) []policies.Cost {
	switch {
	case !isQuery(r.Request):
		return []policies.Cost{}
	case r.Status == http.StatusTooManyRequests:
		return []policies.Cost{{Policy: PolicyGraphQL}}
	case r.Status != http.StatusOK:
		return []policies.Cost{} // what it costs is not documented
	}
	actual, ok := lastCost(r.Body)
	if r.Complete {
		var a answer
		if json.Unmarshal(r.Body, &a) != nil {
			return nil
		}
		if a.throttled() {
			return []policies.Cost{{Policy: PolicyGraphQL}}
		}
		ok = a.Extensions.Cost.Actual != nil
		if ok {
			actual = *a.Extensions.Cost.Actual
		}
	}
	if !ok {
		return nil
	}
	n, ok := points(math.Ceil(actual))
	if !ok || n > largestQuery { // a debt of so many points would stop calls for years
		return nil
	}
	return []policies.Cost{{Policy: PolicyGraphQL, N: n}}
}

// lastCost reads the last actual cost in a body that may lack its start.
func lastCost(body []byte) (actual float64, ok bool) {
	name := []byte(`"actualQueryCost":`)
	at := bytes.LastIndex(body, name)
	if at < 0 {
		return 0, false
	}
	rest := body[at+len(name):]
	end := bytes.IndexAny(rest, ",}") // without either, the number may be cut off
	if end < 0 {
		return 0, false
	}
	actual, err := strconv.ParseFloat(string(bytes.TrimSpace(rest[:end])), 64)
	return actual, err == nil
}
