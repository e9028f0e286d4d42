// Package hubspot describes the limits of HubSpot's APIs.
//
//	p, err := pacer.New(pacer.Config{Upstream: "hubspot", Policies: hubspot.Limits(hubspot.Professional, berlin)})
//	client, err := transport.NewClient(p, transport.WithProfile(hubspot.Profile))
//
// # What HubSpot limits
//
// HubSpot limits the calls in any ten seconds for each app and account, and the calls per day for the account. The day begins at midnight
// in the account's time zone. The credential stands for app and account. Replies report both limits, but with OAuth not the daily one, and
// on search neither.
//
// # How it refuses
//
// HubSpot answers 429 with a policyName in the body. TEN_SECONDLY_ROLLING is over after ten seconds, SECONDLY after one second, and DAILY
// at midnight. HubSpot documents no Retry-After; if a reply has one, it applies. HubSpot does not report how long it is until midnight. So
// a DAILY refusal pauses calls for [DailyProbe], and the policy of the day knows when the day ends. Errors without policyName name it in
// their message.
//
// A 423 means that too much was written at once: the call waits for the two seconds that the lock lasts. A 477 means that the account moves
// to another data centre, for up to a day: all calls wait as long as its Retry-After requests.
//
// # Not modelled
//
// The limits of the search API and of public apps, for which HubSpot's page has no numbers.
package hubspot
