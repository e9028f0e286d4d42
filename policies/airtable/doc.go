// Package airtable knows the limits of Airtable's Web API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "airtable", Policies: airtable.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(airtable.Profile))
//
// # What Airtable limits
//
// Five calls a second to each base, no matter who makes them, and fifty a second of each user or service account for all of its personal
// tokens together. A base is read from the path. A user is identified by the credential, so several tokens of one user look like several
// users: give them one value with transport.WithScope(airtable.ScopeUser, …).
//
// # How it refuses
//
// With 429, and then every call for 30 seconds more, so the pause is [Penalty], which no field reports. Replies do not report which of the
// two limits refused: a call to a base pauses that base, since its limit is the lower one. Refusals of calls without a base are the user's.
//
// A 429 that says PUBLIC_API_BILLING_LIMIT_EXCEEDED means that a workspace has spent the calls of its month (plans Free and Team):
// repeating it is pointless until the next month or plan, and nobody slows down. Replies report no counts.
//
// # What is not known
//
// Where a second begins, and whether the 30 seconds begin anew when one calls within them. The limit per month is not
// modelled: no call tells its workspace.
package airtable
