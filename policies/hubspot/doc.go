// Package hubspot knows the limits of HubSpot's APIs.
//
//	p, err := pacer.New(pacer.Config{Upstream: "hubspot", Policies: hubspot.Limits(hubspot.Professional, berlin)})
//	client, err := transport.NewClient(p, transport.WithProfile(hubspot.Profile))
//
// # What HubSpot limits
//
// Calls in any ten seconds for each app and account, and calls per day for the account, which begins at midnight in the
// account's time zone. The credential stands for app and account. Replies tell both (the daily one not with OAuth, neither
// on search).
//
// # How it refuses
//
// With 429 and a policyName in the body: TEN_SECONDLY_ROLLING and SECONDLY are over after that time, DAILY at midnight.
// HubSpot documents no Retry-After; one that is there is heeded. How long until midnight it does not tell: nothing goes for
// [DailyProbe], and the day's own policy knows the rest.
//
// # Not modelled
//
// The limit of the search API and of public apps, which HubSpot's page does not number; 423 Locked.
package hubspot
