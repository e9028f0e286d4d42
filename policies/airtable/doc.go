// Package airtable knows the limits of Airtable's Web API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "airtable", Policies: airtable.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(airtable.Profile))
//
// Airtable allows five calls a second to each base, and fifty a second to each user for all of the user's personal tokens
// together. It refuses with 429, and then refuses every call for 30 seconds more, so the pause is [Penalty]; no field tells
// it. A base is read from the path. Calls without one, and refusals of them, are the user's.
//
// Which of the two limits refused is not told: a call to a base pauses that base, since its limit is the lower one.
package airtable
