// Package standin is a stand-in for the REST API of one Salesforce org: a strict judge of clients that pace themselves.
//
// It serves a few resources of API version 63.0 and others over made-up records, enforces the limits that Salesforce documents, and keeps a
// record. It shares no code with Headway, so that no finding about Headway can come from a mistake in both.
//
// # What it enforces
//
//	daily       calls in the last 24 hours, of all consumers of the org together
//	concurrent  requests that have been running for 20 seconds and more, of all consumers together
//	peak        calls in the last second, of one consumer, but for those that ask for the limits; the stand-in's own
//
// Source: https://developer.salesforce.com/docs/platform/salesforce-app-limits-cheatsheet/guide/salesforce-app-limits-platform-api.html
//
// The 24 hours roll: a call counts until it is exactly 24 hours old, and the allocation never starts afresh. Windows are half-open: calls
// exactly one period apart do not share one.
//
// A call that breaks a limit gets a 403 with the error code REQUEST_LIMIT_EXCEEDED, and no Retry-After. Salesforce does not document
// whether such a call counts: here it does not. A call without a valid token gets a 401 and does not count either. All other calls count,
// also those with a 404 or a 400.
//
// Every answer but the 401 states how many calls were used, this one included, and how many there are:
//
//	Sforce-Limit-Info: api-usage=18/600
//
// # Consumers
//
// The bearer token identifies a caller, see [Config]. All consumers spend the same allocation; the record counts them separately.
// [Standin.Spend] is a call by a consumer outside HTTP.
package standin
