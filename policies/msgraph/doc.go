// Package msgraph knows how Microsoft Graph and SharePoint limit calls.
//
//	p, err := pacer.New(pacer.Config{Upstream: "msgraph", Policies: msgraph.Limits(msgraph.Medium)})
//	client, err := transport.NewClient(p, transport.WithProfile(msgraph.Profile))
//
// # What Graph limits
//
// Everything that an app calls, in all tenants together: one pacer is for one app. And what it calls in one tenant,
// by service, each with a counter of its own; the first limit that is reached refuses. Of the services, identity
// (users, groups, directory …), reports (audit logs, sign-ins) and Outlook (mail, calendars, contacts …) are in
// [Limits]. Identity counts resource units, and writes apart. Outlook lets an app have 4 calls at once in each
// mailbox: see [Mailbox]. [SharePoint] and [Tenant] are for numbers that only you know.
//
// [Limits] holds a permit for each call to Outlook that runs. The transport gives it back; without a transport, use
// Acquire of the pacer in place of Wait.
//
// No URL names the tenant, so it is identified by a hash of the Authorization field. That is right for the token of an app, which is for
// one tenant. But tokens live for an hour or so and their successors look like other tenants, which start afresh; and with delegated
// permissions every user looks like one. The numbers are then a start, and the replies the rest.
//
// # How it refuses
//
// With 429 and Retry-After in seconds. Calls while being refused count too, so nobody who shares the limit goes on.
// x-ms-throttle-scope says whose limit it is: the app's, the tenant's, or the app's in the tenant, which is the usual
// one; there, of a refused write, that of writes. Without that field it is the service's of the path, as far as it is
// known here, and otherwise the app's in the tenant. Outlook's is of the mailbox: with [Mailbox] in the stack, other
// mailboxes go on. SharePoint refuses with 503, too; elsewhere a 503 with Retry-After asks to wait, but the call may
// have been processed.
//
// SharePoint tells what is left, near the limit and to apps alone: RateLimit-Limit, -Remaining and -Reset in
// seconds. They are in beta, and in resource units: with the policy [SharePoint] in calls, they are taken as they
// are.
//
// x-ms-resource-unit corrects what a call to identity was estimated to cost. x-ms-throttle-limit-percentage is not
// used: it says how much of some limit was used, and neither which nor until when.
//
// # Not modelled
//
// The calls within a $batch, whose refusals are inside of a 200; the limits of other services, calls at once of
// OneNote, Bookings and insights among them, and Outlook's of requests and bytes in ten and five minutes; identity's
// limits of an app in all tenants and of a tenant; the higher cost of writes to applications.
//
// # What is not known
//
// Where windows begin, and how deep identity's token buckets are: they are taken to hold one period's quota.
package msgraph
