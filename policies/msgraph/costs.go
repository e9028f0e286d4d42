package msgraph

import (
	"net/http"
	"strings"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// An operation costs more than one resource unit of identity.
type operation struct {
	method string
	path   string // its elements; * is an id
	units  int64
}

// operations are all that cost more than 1. A path that begins with me stands for that of a user, too.
// Source: https://learn.microsoft.com/graph/throttling-limits#identity-and-access-service-limits
var operations = []operation{ //nolint:gochecknoglobals // a constant table
	{http.MethodGet, "applications", 2},
	{http.MethodGet, "applications/*/extensionproperties", 2},
	{http.MethodGet, "contracts", 3},
	{http.MethodPost, "directoryobjects/getbyids", 3},
	{http.MethodGet, "domains/*/domainnamereferences", 4},
	{http.MethodPost, "getobjectsbyid", 3},
	{http.MethodGet, "groups/*/members", 3},
	{http.MethodGet, "groups/*/transitivemembers", 5},
	{http.MethodPost, "ismemberof", 4},
	{http.MethodPost, "me/checkmembergroups", 4},
	{http.MethodPost, "me/checkmemberobjects", 4},
	{http.MethodPost, "me/getmembergroups", 2},
	{http.MethodPost, "me/getmemberobjects", 2},
	{http.MethodGet, "me/licensedetails", 2},
	{http.MethodGet, "me/memberof", 2},
	{http.MethodGet, "me/ownedobjects", 2},
	{http.MethodGet, "me/transitivememberof", 2},
	{http.MethodGet, "oauth2permissiongrants", 2},
	{http.MethodGet, "oauth2permissiongrants/*", 2},
	{http.MethodGet, "serviceprincipals/*/approleassignments", 2},
	{http.MethodGet, "subscribedskus", 3},
	{http.MethodGet, "users", 2},
}

// costs returns the resource units of a call to identity: those of its operation, one less with $select, one more with
// $expand, one less with a $top under 20, and at least 1.
func costs(r *http.Request) []policies.Cost {
	if service(r) != ScopeIdentity {
		return nil
	}
	n := base(r)
	q := r.URL.Query()
	if q.Has("$select") {
		n--
	}
	if q.Has("$expand") {
		n++
	}
	if top, ok := fields.Number(q.Get("$top")); ok && top < 20 {
		n--
	}
	return []policies.Cost{{Policy: PolicyIdentity, N: max(1, n)}}
}

func base(r *http.Request) int64 {
	p := path(r)
	if p[0] == "users" && len(p) > 2 {
		p = append([]string{"me"}, p[2:]...)
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	for _, o := range operations {
		if o.method == method && o.at(p) {
			return o.units
		}
	}
	return 1
}

func (o operation) at(p []string) bool {
	want := strings.Split(o.path, "/")
	if len(p) != len(want) {
		return false
	}
	for i, w := range want {
		if w != "*" && w != p[i] {
			return false
		}
	}
	return true
}

// settle returns the resource units that a call to identity was charged.
func settle(r *policies.Reply) []policies.Cost {
	n, ok := fields.Number(fields.Get(r.Header, "X-Ms-Resource-Unit"))
	if !ok || n == 0 || fields.Cached(r.Header) || service(r.Request) != ScopeIdentity {
		return []policies.Cost{} // the body does not report it
	}
	return []policies.Cost{{Policy: PolicyIdentity, N: n}}
}
