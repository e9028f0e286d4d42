package zendesk

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// deepPage is the page of a list from which it has a limit of its own.
const deepPage = 500

// An endpoint is a scope whose value is the account, carried by the calls for which is returns true.
type endpoint struct {
	scope string
	is    func(c call) bool
}

// call is a request as endpoints look at it.
type call struct {
	method string
	parts  []string // of the path below /api/v2, without .json
	page   int64
}

func (c call) at(parts ...string) bool {
	if len(c.parts) != len(parts) {
		return false
	}
	for i, p := range parts {
		if p != "*" && p != c.parts[i] {
			return false
		}
	}
	return true
}

// one reports whether the call is to a single object of a kind: /tickets/7, and not /tickets/update_many.
func (c call) one(kind string) bool {
	if !c.at(kind, "*") {
		return false
	}
	_, err := strconv.ParseUint(c.parts[1], 10, 64)
	return err == nil
}

func (c call) below(parts ...string) bool {
	return len(c.parts) > len(parts) && call{parts: c.parts[:len(parts)]}.at(parts...)
}

func callOf(r *http.Request) call {
	_, path, _ := strings.Cut(r.URL.Path, "/api/v2/")
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".json")
	c := call{method: cmp.Or(r.Method, http.MethodGet), parts: strings.Split(path, "/")}
	c.page, _ = strconv.ParseInt(r.URL.Query().Get("page"), 10, 64)
	return c
}

func helpCenter(c call) bool { return c.below("help_center") }

func updatesUser(c call) bool {
	return c.method == http.MethodPut && c.one("users") ||
		c.method == http.MethodPost && (c.at("users", "create_or_update") || c.at("users", "create_or_update_many"))
}

func updatesTickets(c call) bool {
	return c.method == http.MethodPut && (c.at("tickets", "*") || c.at("tickets", "update_many"))
}

// endpoints are the scopes that stand for an endpoint, or for the account.
var endpoints = []endpoint{ //nolint:gochecknoglobals // a constant table
	{ScopeAccount, func(c call) bool { return !helpCenter(c) }},
	{ScopeHelpCenter, helpCenter},
	{ScopeTicketsIndex, func(c call) bool { return c.method == http.MethodGet && c.at("tickets") }},
	{ScopeTicketsIndexDeep, func(c call) bool { return c.method == http.MethodGet && c.at("tickets") && c.page > deepPage }},
	{ScopeTicketsUpdate, updatesTickets},
	{ScopeIncrementalExports, func(c call) bool { return c.below("incremental") }},
	{ScopeUsersUpdate, updatesUser},
	{ScopeSearchExport, func(c call) bool { return c.at("search", "export") }},
}

// A thing is a scope whose value is one ticket, user, view or organization of the account.
type thing struct {
	scope string
	is    func(c call) bool
	agent bool // and the credential
}

var things = []thing{ //nolint:gochecknoglobals // a constant table
	{ScopeTicket, func(c call) bool { return c.method == http.MethodPut && c.one("tickets") }, true},
	{ScopeUser, func(c call) bool { return c.method == http.MethodPut && c.one("users") }, false},
	{ScopeView, func(c call) bool { return c.at("views", "*", "execute") }, true},
	{ScopeOrganization, func(c call) bool { return c.method == http.MethodPut && c.one("organizations") }, false},
}

func scopes() []policies.Scope {
	var all []policies.Scope
	for _, e := range endpoints {
		all = append(all, policies.Scope{Name: e.scope, Value: func(r *http.Request) string {
			if !e.is(callOf(r)) {
				return ""
			}
			return account(r)
		}})
	}
	for _, t := range things {
		all = append(all, policies.Scope{Name: t.scope, Value: func(r *http.Request) string {
			c := callOf(r)
			if !t.is(c) {
				return ""
			}
			value := account(r) + "/" + c.parts[1]
			if t.agent {
				value += "/" + fields.Credential(r.Header)
			}
			return value
		}})
	}
	return all
}

func account(r *http.Request) string { return strings.ToLower(r.URL.Hostname()) }
