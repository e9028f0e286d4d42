package zendesk

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// deepPage is the last page of a list before the limit of deep pagination applies.
const deepPage = 500

// An endpoint is a scope of the calls for which is returns true. Its value is the account; if the limit is that of an object or of a
// credential in the account, its value also has these.
type endpoint struct {
	scope string
	is    func(c call) bool

	object     bool // one ticket, user, view or organization of the account
	credential bool
}

// endpoints are all scopes.
var endpoints = []endpoint{ //nolint:gochecknoglobals // a constant table
	{scope: ScopeAccount, is: func(c call) bool { return !c.helpCenter() }},
	{scope: ScopeHelpCenter, is: call.helpCenter},
	{scope: ScopeTicketsIndex, is: call.listsTickets},
	{scope: ScopeTicketsIndexDeep, is: func(c call) bool { return c.listsTickets() && c.page() > deepPage }},
	{scope: ScopeTicketsUpdate, is: call.updatesTickets},
	{scope: ScopeIncrementalExports, is: func(c call) bool { return c.below("incremental") }},
	{scope: ScopeUsersUpdate, is: call.updatesUsers},
	{scope: ScopeSearchExport, is: func(c call) bool { return c.at("search", "export") }},
	{scope: ScopeTicket, is: func(c call) bool { return c.method == http.MethodPut && c.one("tickets") }, object: true, credential: true},
	{scope: ScopeUser, is: func(c call) bool { return c.method == http.MethodPut && c.one("users") }, object: true},
	{scope: ScopeView, is: func(c call) bool { return c.at("views", "*", "execute") }, object: true, credential: true},
	{scope: ScopeOrganization, is: func(c call) bool { return c.method == http.MethodPut && c.one("organizations") }, object: true},
}

func scopes() []policies.Scope {
	all := make([]policies.Scope, 0, len(endpoints))
	for _, e := range endpoints {
		all = append(all, policies.Scope{Name: e.scope, Value: e.value})
	}
	return all
}

// value returns the value of the scope; "" if the request does not carry it.
func (e endpoint) value(r *http.Request) string {
	c := callOf(r)
	if !e.is(c) {
		return ""
	}
	account := strings.ToLower(r.URL.Hostname())
	switch {
	case e.credential:
		return account + "/" + c.object() + "/" + fields.Credential(r.Header)
	case e.object:
		return account + "/" + c.object()
	}
	return account
}

// call is a request as endpoints see it. Each scope reads what it needs, so nothing is split or decoded before.
type call struct {
	method  string
	path    string // below /api/v2, without .json
	request *http.Request
}

func callOf(r *http.Request) call {
	_, path, _ := strings.Cut(r.URL.Path, "/api/v2/")
	return call{cmp.Or(r.Method, http.MethodGet), strings.TrimSuffix(strings.Trim(path, "/"), ".json"), r}
}

// at reports whether the path has these elements and no more; "*" stands for any one.
func (c call) at(elements ...string) bool {
	more, ok := c.follow(elements)
	return ok && !more
}

// below reports whether the path has these elements and more.
func (c call) below(elements ...string) bool {
	more, ok := c.follow(elements)
	return ok && more
}

// follow reports whether the path begins with these elements, and whether there are more.
func (c call) follow(elements []string) (more, ok bool) {
	rest, more := c.path, true
	for _, want := range elements {
		if !more {
			return false, false
		}
		var element string
		element, rest, more = strings.Cut(rest, "/")
		if want != "*" && want != element {
			return false, false
		}
	}
	return more, true
}

// one reports whether the call is to a single object of a kind: /tickets/7, and not /tickets/update_many.
func (c call) one(kind string) bool {
	if !c.at(kind, "*") {
		return false
	}
	_, err := strconv.ParseUint(c.object(), 10, 64)
	return err == nil
}

// object returns the second element of the path.
func (c call) object() string {
	_, rest, _ := strings.Cut(c.path, "/")
	object, _, _ := strings.Cut(rest, "/")
	return object
}

// page returns the page of a list; 0 if the call does not name one.
func (c call) page() int64 {
	if c.request.URL.RawQuery == "" {
		return 0
	}
	n, _ := strconv.ParseInt(c.request.URL.Query().Get("page"), 10, 64)
	return n
}

func (c call) helpCenter() bool { return c.below("help_center") }

func (c call) listsTickets() bool { return c.method == http.MethodGet && c.at("tickets") }

func (c call) updatesTickets() bool {
	return c.method == http.MethodPut && c.at("tickets", "*")
}

func (c call) updatesUsers() bool {
	return c.method == http.MethodPut && c.one("users") ||
		c.method == http.MethodPost && (c.at("users", "create_or_update") || c.at("users", "create_or_update_many"))
}
