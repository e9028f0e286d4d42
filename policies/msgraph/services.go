package msgraph

import (
	"net/http"
	"slices"
	"strings"

	"github.com/headway-go/headway/policies/fields"
)

// service returns the scope of the service that a request calls; "" for a service that is not known here.
func service(r *http.Request) string {
	if strings.HasSuffix(strings.ToLower(r.URL.Hostname()), ".sharepoint.com") {
		return ScopeSharePoint
	}
	p := path(r)
	if len(p) == 0 {
		return ""
	}
	switch p[0] {
	case "sites", "drives", "drive", "shares":
		return ScopeSharePoint
	case "auditlogs":
		return ScopeReports
	case "me", "users", "groups":
		return below(p)
	}
	if slices.Contains(directory, p[0]) {
		return ScopeIdentity
	}
	return ""
}

// directory lists where else identity's resources are.
// Source: https://learn.microsoft.com/graph/throttling-limits#identity-and-access-service-limits
var directory = []string{ //nolint:gochecknoglobals // a constant table
	"applications", "contacts", "contracts", "devices", "directory", "directoryobjects", "directoryroles",
	"directoryroletemplates", "domains", "getobjectsbyid", "groupsettings", "groupsettingtemplates",
	"ismemberof", "oauth2permissiongrants", "organization", "serviceprincipals", "subscribedskus",
}

// own lists what of a user or a group belongs to identity. The rest is mail, calendars, chats and so on.
var own = []string{ //nolint:gochecknoglobals // a constant table
	"approleassignments", "checkmembergroups", "checkmemberobjects", "createdobjects", "directreports",
	"getmembergroups", "getmemberobjects", "licensedetails", "manager", "memberof", "members",
	"oauth2permissiongrants", "ownedobjects", "owneddevices", "owners", "registereddevices", "settings",
	"transitivememberof", "transitivemembers",
}

// outlook lists what of a user or a group is in its mailbox, or beside it.
// Source: https://learn.microsoft.com/graph/throttling-limits#outlook-service-resources
var outlook = []string{ //nolint:gochecknoglobals // a constant table
	"calendar", "calendargroups", "calendars", "calendarview", "contactfolders", "contacts", "events", "findmeetingtimes",
	"mailfolders", "messages", "outlook", "people", "photo", "photos", "sendmail",
}

// mailbox returns a hash of the mailbox that a request accesses; "" if it accesses none. The same mailbox under another name, such as an id
// and an address, looks like another one.
func mailbox(r *http.Request) string {
	if service(r) != ScopeMailbox {
		return ""
	}
	p := path(r)
	if p[0] == "me" {
		return fields.Fingerprint("me")
	}
	return fields.Fingerprint(p[1])
}

// below returns the service of a path that begins with me, users or groups.
func below(p []string) string {
	rest := p[1:]
	if p[0] != "me" && len(rest) > 0 {
		rest = rest[1:] // the id
	}
	switch {
	case len(rest) == 0:
		return ScopeIdentity
	case slices.Contains([]string{"drive", "drives", "sites"}, rest[0]):
		return ScopeSharePoint
	case slices.Contains(own, rest[0]):
		return ScopeIdentity
	case slices.Contains(outlook, rest[0]):
		return ScopeMailbox
	}
	return ""
}

// path returns the elements of a request's path below the version, in lower case: Graph ignores case.
func path(r *http.Request) []string {
	p := strings.Split(strings.Trim(strings.ToLower(r.URL.Path), "/"), "/")
	if p[0] != "v1.0" && p[0] != "beta" {
		return nil
	}
	return p[1:]
}

// reads reports whether a request has a method that changes nothing.
func reads(r *http.Request) bool {
	return slices.Contains([]string{"", http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method)
}

// writes reports whether a request counts against identity's writes. A query by POST does not.
func writes(r *http.Request) bool {
	p := path(r)
	return service(r) == ScopeIdentity && !reads(r) && !slices.Contains(questions, p[len(p)-1])
}

// questions are the last elements of paths that are queried by POST, which costs no writes.
// Source: https://learn.microsoft.com/graph/throttling-limits#identity-and-access-service-limits
var questions = []string{ //nolint:gochecknoglobals // a constant table
	"getbyids", "getobjectsbyid", "ismemberof", "checkmembergroups", "checkmemberobjects", "getmembergroups",
	"getmemberobjects",
}

// carriedBy returns the value function of a scope for the requests for which is returns true.
func carriedBy(is func(*http.Request) bool) func(*http.Request) string {
	return func(r *http.Request) string {
		if !is(r) {
			return ""
		}
		return fields.Credential(r.Header)
	}
}

// goesTo returns a function that reports whether a request calls a service.
func goesTo(scope string) func(*http.Request) bool {
	return func(r *http.Request) bool { return service(r) == scope }
}
