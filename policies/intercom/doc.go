// Package intercom knows the limits of Intercom's API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "intercom", Policies: intercom.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(intercom.Profile))
//
// Intercom allows a private app 10,000 calls a minute and a workspace 25,000, and counts in windows of ten seconds with a
// sixth of the number each. An app is told by its credential, which stands for one workspace; if several apps of yours share
// a workspace, give them its scope with transport.WithScope(intercom.ScopeWorkspace, …).
//
// Every reply tells the window's limit, what is left of it, and when it ends, as an instant in seconds of the epoch. A 429 is
// over then.
package intercom
