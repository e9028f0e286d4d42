// Package atlassian knows the limits of Jira Cloud's REST API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "jira", Policies: atlassian.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(atlassian.Profile))
//
// # What Atlassian limits
//
// Three things at once. Points per hour: a pool of 65,000 for an app over all of its tenants; API tokens are not counted
// there. A token bucket per second for each endpoint and tenant: 100 for GET and POST, 50 for PUT and DELETE, unless the
// endpoint's page says otherwise. And writes to one issue: 20 in 2 seconds and 100 in 30 seconds. A tenant is the
// host, or the cloud id of api.atlassian.com/ex/jira/{id}; an endpoint is tenant, method and path without ids.
//
// # How it refuses
//
// With 429 and Retry-After, and RateLimit-Reason says which: jira-quota-global-based, jira-quota-tenant-based,
// jira-burst-based or jira-per-issue-on-write. Only that one pauses. Some 503 carry a Retry-After, too: the call alone waits.
// X-RateLimit-Reset, an instant of ISO 8601 that may lack its seconds, stands on refusals alone, and is used where
// there is no Retry-After.
//
// # What counts tell
//
// X-RateLimit-Limit and -Remaining are of the bucket. Beta-RateLimit, in structured fields, leaves out what is left until
// most of it is used, which means plenty, and has been seen with a wrong t next to r=0; it is used for the pool alone, and
// without its t.
//
// # Not modelled
//
// What a call costs in points: 1, and 2 for users, groups and permissions. Quotas of a tenant differ by tier: see
// [TenantQuota].
package atlassian
