// Package atlassian describes the limits of Jira Cloud's REST API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "jira", Policies: atlassian.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(atlassian.Profile))
//
// # What Atlassian limits
//
// Jira has three kinds of limits:
//
//   - Points per hour: an app has a pool of 65,000 for all of its tenants. Calls with API tokens do not count against it.
//   - A token bucket per second for each endpoint and tenant: 100 for GET and POST, 50 for PUT and DELETE, by default; an endpoint's page
//     may state others.
//   - Writes to one issue: 20 in 2 seconds and 100 in 30 seconds.
//
// A tenant is the host, or the cloud id of api.atlassian.com/ex/jira/{id}. An endpoint is the tenant, the method, and the path without ids.
//
// # How it refuses
//
// Jira answers 429 with Retry-After, and RateLimit-Reason names the limit: jira-quota-global-based, jira-quota-tenant-based,
// jira-burst-based or jira-per-issue-on-write. Only this limit pauses; if the stack does not have the policy of a quota, the widest scope
// that binds the call pauses. Some replies with 5xx also have a Retry-After: then only that call waits. X-RateLimit-Reset, an instant of
// ISO 8601 that may lack its seconds, is sent with refusals only, and is used if there is no Retry-After.
//
// # What the counts report
//
// X-RateLimit-Limit and -Remaining are about the token bucket, unless RateLimit-Reason or X-RateLimit-NearLimit: true marks them as those
// of a quota. RateLimit and RateLimit-Policy name their limits: global-app-quota, tenant-app-quota and jira-burst-based. They omit what is
// left until most of it is used, which means that plenty is left. The same fields with Beta- before their names, and X-Beta-RateLimit-*,
// are "informational only": such a limit refuses no call yet, so they are not used.
//
// # Not modelled
//
// The cost of a call in points: 1, and 2 for users, groups and permissions. The quota of a tenant depends on its tier: see [TenantQuota].
package atlassian
