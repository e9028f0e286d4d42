// Package notion knows the limit of Notion's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "notion", Policies: notion.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(notion.Profile))
//
// Notion allows three calls a second on average for each integration, and "some bursts beyond". An integration is told by
// its credential. It refuses with 429, the code rate_limited and a Retry-After in whole seconds, and tells no counts.
package notion
