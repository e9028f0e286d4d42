// Package notion knows the limit of Notion's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "notion", Policies: notion.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(notion.Profile))
//
// # What Notion limits
//
// Three calls a second on average for each integration, and "some bursts beyond". An integration is identified by its credential. Source:
// https://developers.notion.com/reference/request-limits
//
// # How it refuses
//
// With 429, the code rate_limited and a Retry-After in whole seconds, which is a pause of the integration. Any other status says nothing
// about limits, and replies report no counts.
//
// # What is not known
//
// How large a burst may be, and over which time the average is taken. Notion plans limits that differ by the
// workspace's pricing plan.
package notion
