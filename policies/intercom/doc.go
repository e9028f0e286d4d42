// Package intercom knows the limits of Intercom's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "intercom", Policies: intercom.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(intercom.Profile))
//
// # What Intercom limits
//
// A private app may make 10,000 calls a minute and a workspace 25,000, counted in windows of ten seconds with a sixth of the number each.
// An app is identified by its credential, which belongs to one workspace; if several apps of yours share a workspace, give them its scope
// with transport.WithScope(intercom.ScopeWorkspace, …).
//
// # How it refuses
//
// With 429, until the window ends. Such a pause is the app's: the reply does not name the app or the workspace.
//
// # What counts tell
//
// X-RateLimit-Limit is that of the window, not of the minute, X-RateLimit-Remaining what is left of it, and X-RateLimit-Reset
// when it ends, in seconds of the epoch. They are the app's. Where your app was granted less than the default, they lower
// the policy; where it was granted more, make the stack yourself.
//
// # What is not known
//
// Where a window begins (examples show ends at whole tens of seconds; nothing promises it), and a Retry-After: one that is
// there is heeded.
package intercom
