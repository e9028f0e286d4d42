package atlassian

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

func scopes() []policies.Scope {
	return []policies.Scope{
		{Name: ScopeApp, Value: app},
		{Name: ScopeTenant, Value: tenant},
		{Name: ScopeReads, Value: func(r *http.Request) string { return endpoint(r, !writes(r)) }},
		{Name: ScopeWrites, Value: func(r *http.Request) string { return endpoint(r, writes(r)) }},
		{Name: ScopeIssue, Value: issue},
	}
}

func app(r *http.Request) string {
	if c := fields.Credential(r.Header); c != "" {
		return c
	}
	return tenant(r)
}

// cloud matches the start of a path at api.atlassian.com, up to the cloud id.
var cloud = regexp.MustCompile(`^/ex/[^/]+/([^/]+)`)

func tenant(r *http.Request) string {
	if m := cloud.FindStringSubmatch(r.URL.Path); m != nil {
		return m[1]
	}
	return strings.ToLower(r.URL.Hostname())
}

// path returns the elements of the path after its version: [issue PROJ-7 comment].
func path(r *http.Request) []string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	for i := range parts {
		if parts[i] == "rest" && i+3 < len(parts) { // rest/api/3/…, rest/agile/1.0/…
			return parts[i+3:]
		}
	}
	return parts
}

func method(r *http.Request) string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

func writes(r *http.Request) bool {
	return r.Method == http.MethodPut || r.Method == http.MethodPatch || r.Method == http.MethodDelete
}

// isIssue reports whether an element of a path may be the key or the number of an issue: the names of resources have no digits.
func isIssue(part string) bool { return strings.ContainsAny(part, "0123456789") }

func endpoint(r *http.Request, carries bool) string {
	if !carries {
		return ""
	}
	return tenant(r) + " " + method(r) + " " + names.Template(path(r), 1)
}

// issue returns the issue that a call writes to; "" if it writes to none.
func issue(r *http.Request) string {
	parts := path(r)
	if m := method(r); m == http.MethodGet || m == http.MethodHead || len(parts) < 2 || parts[0] != "issue" || !isIssue(parts[1]) {
		return ""
	}
	return tenant(r) + " " + parts[1]
}
