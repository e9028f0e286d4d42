package google

import (
	"net/http"
	"strings"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// Profile is the profile of Google's APIs.
var Profile = policies.Profile{
	Name:   "google",
	Scopes: []policies.Scope{{Name: ScopeProject, Value: project}, {Name: ScopeUser, Value: user}},
	Peek:   peek,
	Read:   fields.HeedUnavailable(read),
}

// project returns the API that a request calls, and the project that it names to be charged, if any.
func project(r *http.Request) string {
	if charged := strings.TrimSpace(r.Header.Get("X-Goog-User-Project")); charged != "" {
		return api(r) + " " + charged
	}
	return api(r)
}

// api returns the host, which is the API's own, such as gmail.googleapis.com. Older APIs share www.googleapis.com: for these it returns the
// host and the first element of the path, after that of a batch or an upload.
func api(r *http.Request) string {
	host := strings.ToLower(r.URL.Hostname())
	if host != "www.googleapis.com" {
		return host
	}
	path := strings.TrimPrefix(r.URL.Path, "/")
	for _, kind := range []string{"batch/", "upload/"} {
		path = strings.TrimPrefix(path, kind)
	}
	name, _, _ := strings.Cut(path, "/")
	return host + "/" + name
}

// user returns the user that a request is charged to within its project; "" if the request has none.
// Source: https://cloud.google.com/apis/docs/system-parameters
func user(r *http.Request) string {
	id := fields.Fingerprint(r.URL.Query().Get("quotaUser"))
	if id == "" {
		id = fields.Fingerprint(r.Header.Get("X-Goog-Quota-User"))
	}
	if id == "" {
		id = fields.Credential(r.Header)
	}
	if id == "" {
		return ""
	}
	return project(r) + " " + id
}

// maxError is how much of an error is read.
const maxError = 16 << 10

// refusing reports whether replies with a status may be refusals by a limit.
func refusing(status int) bool {
	return status == http.StatusForbidden || status == http.StatusTooManyRequests
}

func peek(r *http.Response) int {
	if refusing(r.StatusCode) {
		return maxError
	}
	return 0
}

func read(r *policies.Reply) policies.Reading {
	if !refusing(r.Status) {
		return policies.Reading{}
	}
	e := parse(r.Body)
	c := e.cause()
	if c.source == "" && r.Status == http.StatusTooManyRequests {
		c = e.named("429")
	}
	if c.policy == "" { // about permissions, or about resources
		return policies.Reading{Verdict: c.verdict}
	}
	f := policies.Feedback{Source: c.source, Policies: []string{c.policy}, Otherwise: policies.Everyone, Refused: true}
	if c.policy == PolicyUser {
		f.Otherwise = policies.TheCall
	}
	if wait, ok := fields.RetryAfter(r.Header, r.Now); ok {
		f.Source, f.Wait = "Retry-After", wait
	} else if wait, source, ok := e.delay(fields.Now(r.Header, r.Now)); ok {
		f.Source, f.Wait = source, wait
	}
	return policies.Reading{Feedback: []policies.Feedback{f}, Verdict: c.verdict}
}
