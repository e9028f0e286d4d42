// Package twilio knows how Twilio's REST API refuses.
//
//	p, err := pacer.New(pacer.Config{Upstream: "twilio", Policies: twilio.Limits(50)})
//	client, err := transport.NewClient(p, transport.WithProfile(twilio.Profile))
//
// Twilio limits how many calls of an account run at once; that is not modelled yet, and Twilio documents no rate for its REST
// API, so give one of your own. An account is the SID in the path.
//
// It refuses with 429 and the code 20429. Such a call was never processed, so repeating it is safe whatever its method. No
// Retry-After is documented; one that is there is heeded, and otherwise the call alone backs off: nothing says that
// the account is over a rate. Make the policy Adaptive to let refusals slow it down. Twilio-Concurrent-Requests tells how
// many calls run; it is no count of a rate and is not used.
package twilio
