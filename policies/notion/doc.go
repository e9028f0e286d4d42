// Package notion describes the limit of Notion's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "notion", Policies: notion.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(notion.Profile))
//
// # What Notion limits
//
// Notion gives each connection (integration) a number of requests for 60 seconds, and each workspace one that all of its connections share.
// Both depend on the workspace's plan. The credential identifies the connection. [Limits] keeps the older and lower limit, an average of
// three requests a second with "some bursts beyond", which is for any plan. Source: https://developers.notion.com/reference/request-limits
//
// # How it refuses
//
// Notion answers 429 with the code rate_limited and a Retry-After in whole seconds, for which the integration pauses: up to a minute by the
// limit of the connection, and perhaps longer by that of the workspace. A rate_limit_reason names the limit, but its values are not all
// documented, and each requests the same of this connection. A 529 means that the service has too much to do: all calls wait as long as its
// Retry-After requests. Replies report no counts.
//
// # What is not known
//
// The numbers of the plans, where the 60 seconds begin, and which endpoints have a limit of their own.
package notion
