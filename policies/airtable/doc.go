// Package airtable describes the limits of Airtable's Web API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "airtable", Policies: airtable.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(airtable.Profile))
//
// # What Airtable limits
//
// Airtable allows five calls a second to each base, no matter who makes them, and fifty calls a second for each user or service account,
// over all of its personal tokens together. The profile reads the base from the path. It identifies a user by the credential, so several
// tokens of one user look like several users: give them one value with transport.WithScope(airtable.ScopeUser, …).
//
// # How it refuses
//
// Airtable answers 429, and then refuses every call for 30 more seconds. So a refusal pauses calls for [Penalty], a time that no field
// reports; a Retry-After that is longer takes precedence. Replies do not report which of the two limits refused the call. If the call was
// to a base, that base pauses, because its limit is the lower one. Otherwise the user pauses.
//
// A 429 that contains PUBLIC_API_BILLING_LIMIT_EXCEEDED means that a workspace has spent its calls for the month (plans Free and Team).
// Repeating the call is pointless until the next month or a new plan. The base pauses for [MonthlyProbe], and then one call finds out
// whether it may go on; other bases of the workspace find out by themselves. Replies report no counts.
//
// # What is not known
//
// Where a second begins, and whether a call during the 30 seconds makes them start again. The limit per month is not modelled: no call
// names its workspace.
package airtable
