// Package slack knows the limits of Slack's Web API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "slack", Policies: slack.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(slack.Profile))
//
// # What Slack limits
//
// Each method apart, per workspace and app, by the method's tier: 1, 20, 50 or 100 calls a minute and more, "with some
// burst". [TierOf] knows the methods that the reference lists; one that it does not know has its own line without a limit of
// ours, but heeds what Slack says. Posting has 1 message a second for each channel: give the channel by
// pacer.WithScope(ctx, slack.ScopeChannel, id), for it is in the body.
//
// Workspace and app are identified by a hash of the Authorization field. Some libraries send the token in the body: then give the scope
// yourself with transport.WithScope(slack.ScopeToken, …), or all calls count as those of one token.
//
// # How it refuses
//
// With 429 and Retry-After in whole seconds, for the method alone. Other methods go on.
//
// # Not modelled
//
// The cap of a workspace on messages; incoming webhooks of one channel (they count by their path); the limit of new apps
// outside the Marketplace on conversations.history and conversations.replies, one a minute: see [NonMarketplace].
package slack
