// Package notion describes the limit of Notion's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "notion", Policies: notion.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(notion.Profile))
//
// # What Notion limits
//
// Notion allows each integration three calls a second on average, and "some bursts beyond". The credential identifies the integration.
// Source: https://developers.notion.com/reference/request-limits
//
// # How it refuses
//
// Notion answers 429 with the code rate_limited and a Retry-After in whole seconds, for which the integration pauses. Other statuses report
// nothing about limits, and replies report no counts.
//
// # What is not known
//
// How large a burst may be, and over which time the average is taken. Notion plans limits that differ by the workspace's pricing plan.
package notion
