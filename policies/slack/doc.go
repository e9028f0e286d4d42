// Package slack describes the limits of Slack's Web API.
//
//	p, err := pacer.New(pacer.Config{Upstream: "slack", Policies: slack.Limits()})
//	client, err := transport.NewClient(p, transport.WithProfile(slack.Profile))
//
// # What Slack limits
//
// Slack limits each method separately, per workspace and app, by the method's tier: 1, 20, 50 or 100 calls a minute and more, "with some
// burst". [TierOf] returns the tier of each method that this package knows. A method that it does not know is also counted separately, by a
// policy of 1,000 calls a second, which only has an effect when Slack refuses a call. Posting has 1 message a second for each channel: set
// the channel with pacer.With(ctx, pacer.Scope(slack.ScopeChannel, id)), because it is in the body.
//
// A hash of the Authorization field identifies workspace and app. Some libraries send the token in the body: then set the scope yourself
// with transport.WithScope(slack.ScopeToken, …), or all calls count as those of one token.
//
// # How it refuses
//
// Slack answers 429 with Retry-After in whole seconds, for the method only. Other methods continue.
//
// # Not modelled
//
// The cap of a workspace on messages; incoming webhooks of one channel (they are counted by their path). [Limits] does not have the limit
// of new apps outside the Marketplace on conversations.history and conversations.replies, one call a minute: see [NonMarketplace].
package slack
