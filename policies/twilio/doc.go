// Package twilio knows how Twilio's REST API refuses.
//
//	stack := append(twilio.Limits(50), twilio.Calls(1), twilio.Concurrent(20))
//	p, err := pacer.New(pacer.Config{Upstream: "twilio", Policies: stack})
//	client, err := transport.NewClient(p, transport.WithProfile(twilio.Profile))
//
// # What Twilio limits
//
// How many API requests of an account run at once: [Concurrent]. Twilio documents neither that number nor a rate for
// its REST API, so give your own. Telephone calls that the API starts go at one a second for each account unless you
// were granted more; Twilio queues what comes faster, for at most a day. An account is the SID in the path; where
// that has none, the account's SID or the hash of another credential. Each subaccount is an account.
//
// # How it refuses
//
// With 429 and the code 20429. Such a request was never processed, so repeating it is safe whatever its method. No
// Retry-After is documented but for single products; one that is there is heeded, and otherwise the request alone
// backs off: such a refusal is about requests at once, over as soon as one ends, and nothing says that the account is
// over a rate. Without [Concurrent], make the policy of the account Adaptive to let refusals slow it down.
//
// # What counts tell
//
// Twilio-Concurrent-Requests tells how many requests run, but not of how many; it is not used.
//
// # What is not known
//
// How many requests may run at once. Limits within products (Verify's for each telephone number, say) also come as
// 429 with codes of their own: such a refusal holds back the refused call alone. How fast the messages of a number
// are sent is not modelled: Twilio queues them.
package twilio
