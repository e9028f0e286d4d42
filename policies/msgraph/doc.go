// Package msgraph describes how Microsoft Graph and SharePoint limit calls.
//
//	p, err := pacer.New(pacer.Config{Upstream: "msgraph", Policies: msgraph.Limits(msgraph.Medium)})
//	client, err := transport.NewClient(p, transport.WithProfile(msgraph.Profile))
//
// # What Graph limits
//
// Graph limits all calls of an app, in all tenants together, so one pacer is for one app. It also limits the calls of an app in one tenant,
// by service, each with its own counter. The first limit that is reached refuses the call. [Limits] has these services: identity (users,
// groups, directory …), reports (audit logs, sign-ins) and Outlook (mail, calendars, contacts …). Identity counts resource units, and
// counts writes separately. Outlook lets an app have 4 calls at once in each mailbox: see [Mailbox]. [SharePoint] and [Tenant] are for
// numbers that only you know.
//
// [Limits] holds a permit for each call to Outlook that runs. The transport gives it back; without a transport, use Acquire of the pacer in
// place of Wait.
//
// No URL names the tenant, so a hash of the Authorization field identifies it. That is right for the token of an app, which is for one
// tenant. But a token is valid for an hour or so, and its successor looks like another tenant, which starts afresh. With delegated
// permissions, every user looks like a tenant. The numbers are then only a start, and the replies do the rest.
//
// # How it refuses
//
// Graph answers 429 with Retry-After in seconds. Calls that it refuses meanwhile count too, so all calls that share the limit pause.
// x-ms-throttle-scope reports whose limit refused the call, and so which policy pauses:
//
//   - Application, the app in all tenants: [Global].
//   - Tenant, all apps in the tenant: [Tenant].
//   - Tenant_Application, the app in the tenant, which is the usual value: the policy of the service in the path. If the field has Write
//     and the call is a write to identity, it is that of writes; if the service is Outlook or not known here, it is [Tenant].
//   - Without the field: the same, but [Mailbox] for Outlook. Other mailboxes then continue, unless the stack has [Tenant].
//
// SharePoint also refuses with 503. Elsewhere a 503 with Retry-After requests a wait, but the call may have been processed.
//
// SharePoint reports what is left, but only near the limit and to apps: RateLimit-Limit, -Remaining and -Reset in seconds. These fields are
// in beta, and in resource units. The policy [SharePoint] is in calls; the numbers are used as they are.
//
// x-ms-resource-unit corrects the estimated cost of a call to identity. x-ms-throttle-limit-percentage is not used: it reports how much of
// some limit was used, and neither which limit nor until when.
//
// # Not modelled
//
// The calls within a $batch, whose refusals are inside a 200; the limits of other services, among them calls at once of OneNote, Bookings
// and insights, and Outlook's limits of requests and bytes in ten and five minutes; identity's limits of an app in all tenants and of a
// tenant; the higher cost of writes to applications.
//
// # What is not known
//
// Where windows begin, and how deep identity's token buckets are: they are assumed to hold the quota of one period.
package msgraph
