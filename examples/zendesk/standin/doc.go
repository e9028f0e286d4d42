// Package standin is a stand-in for the Zendesk Support API: a strict judge of clients that pace themselves.
//
// It serves a few endpoints of the API for made-up tickets, enforces the limits that Zendesk documents, and keeps a record. It shares no
// code with Headway, so that no finding about Headway can come from a mistake in both.
//
// # What it enforces
//
//	account         calls per minute by plan, see [PlanLimit]
//	peak            calls per second of an account, see [Peak]; the stand-in's own
//	tickets-index   100 List Tickets a minute per account (300 on the plans with 2,500 calls a minute)
//	tickets-update  100 Update Ticket a minute per account (300 likewise)
//	ticket          30 Update Ticket in 10 minutes per user and ticket
//
// Source: https://developer.zendesk.com/api-reference/introduction/rate-limits/
//
// Zendesk counts "in the current minute" and does not document where its minutes begin. The stand-in takes the strictest reading: every
// limit holds in any window of its length. Windows are half-open: calls exactly one period apart do not share one.
//
// A call that breaks a limit gets a 429, a Retry-After in whole seconds, and Zendesk's plain-text body. It does not count. A call without
// credentials gets a 401 and does not count either.
//
// # Accounts
//
// Several accounts live on one server: the first element of the path names the account, as the subdomain does at Zendesk. Each has limits
// and tickets of its own.
//
//	http://127.0.0.1:8712/acme/api/v2/tickets.json
package standin
