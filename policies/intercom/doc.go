// Package intercom describes the limits of Intercom's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "intercom", Policies: intercom.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(intercom.Profile))
//
// # What Intercom limits
//
// A private app may make 10,000 calls a minute and a workspace 25,000. Intercom counts them in windows of ten seconds, with a sixth of the
// number in each. The credential identifies the app, and belongs to one workspace. If several of your apps share a workspace, give them its
// scope with transport.WithScope(intercom.ScopeWorkspace, …).
//
// # How it refuses
//
// Intercom answers 429 until the window ends. The pause is the app's, because the reply does not report whether the limit of the app or
// that of the workspace refused the call.
//
// # What the counts report
//
// X-RateLimit-Limit is the limit of the window, not of the minute, X-RateLimit-Remaining is what is left of it, and X-RateLimit-Reset is
// when the window ends, in seconds since the Unix epoch. They are the app's. If your app was granted less than the default, they lower the
// policy. If it was granted more, make the stack yourself.
//
// # What is not known
//
// Where a window begins (examples show ends at whole tens of seconds, but nothing promises that), and whether refusals have a Retry-After:
// if a reply has one, it applies.
package intercom
