package main

import (
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/examples/zendesk/standin"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// What Zendesk allows per minute and account on the endpoints that this program uses, and how often one user may update one ticket.
// Source: https://developer.zendesk.com/api-reference/introduction/rate-limits/#endpoint-rate-limits
const (
	endpointLimit     = 100
	endpointLimitHigh = 300 // with 2,500 calls a minute
	highVolume        = 2500
	ticketLimit       = 30
	ticketPeriod      = 10 * time.Minute
)

// skew is by how much calls may bunch up between here and Zendesk.
const skew = 50 * time.Millisecond

// limitsOf returns what binds the calls to accounts that may make limit calls a minute. All of them hold in any window, wherever it begins:
// Zendesk does not say where its minutes begin.
func limitsOf(limit int) []policies.Policy {
	endpoint := int64(endpointLimit)
	if limit >= highVolume {
		endpoint = endpointLimitHigh
	}
	return []policies.Policy{
		policies.AtMost(int64(limit), time.Minute).Burst(2).Skew(skew).Per("tenant").Named("account"),
		policies.AtMost(int64(standin.Peak(limit)), time.Second).Burst(2).Skew(skew).Per("tenant").Named("peak"),
		// These bind only calls that carry their scopes.
		policies.AtMost(endpoint, time.Minute).Burst(5).Skew(skew).Per("tenant", "list").Optional().Named("tickets-index"),
		policies.AtMost(endpoint, time.Minute).Burst(5).Skew(skew).Per("tenant", "update").Optional().Named("tickets-update"),
		policies.Sliding(ticketLimit, ticketPeriod).Skew(skew).Per("tenant", "user", "ticket").Optional().Named("ticket"),
	}
}

// scopes reads from a request which limits bind it. The SDK needs to know nothing of that.
func scopes() []transport.Option {
	return []transport.Option{
		transport.WithScope("tenant", tenantOf),
		transport.WithScope("list", listOf),
		transport.WithScope("update", updateOf),
		transport.WithScope("user", userOf),
		transport.WithScope("ticket", ticketOf),
	}
}

// tenantOf returns the account: the first element of the path at the stand-in, the subdomain at Zendesk.
func tenantOf(r *http.Request) string {
	tenant, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if tenant == "api" {
		tenant, _, _ = strings.Cut(r.URL.Host, ".")
	}
	return tenant
}

// resourceOf returns the part of the path behind /api/v2/.
func resourceOf(r *http.Request) string {
	_, resource, _ := strings.Cut(r.URL.Path, "/api/v2/")
	return strings.TrimSuffix(resource, ".json")
}

// listOf marks List Tickets.
func listOf(r *http.Request) string {
	if r.Method == http.MethodGet && resourceOf(r) == "tickets" {
		return "tickets"
	}
	return ""
}

// ticketOf returns the id of the ticket that a request updates.
func ticketOf(r *http.Request) string {
	id, found := strings.CutPrefix(resourceOf(r), "tickets/")
	if r.Method != http.MethodPut || !found {
		return ""
	}
	return id
}

// updateOf marks Update Ticket.
func updateOf(r *http.Request) string {
	if ticketOf(r) != "" {
		return "tickets"
	}
	return ""
}

// userOf returns who calls.
func userOf(r *http.Request) string {
	user, _, _ := r.BasicAuth()
	return user
}
