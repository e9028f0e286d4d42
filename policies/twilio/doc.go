// Package twilio describes how Twilio's REST API limits requests.
//
//	stack := append(twilio.Limits(50), twilio.Calls(1), twilio.Concurrent(20))
//	p, err := pacer.New(pacer.Config{Upstream: "twilio", Policies: stack})
//	client, err := transport.NewClient(p, transport.WithProfile(twilio.Profile))
//
// # What Twilio limits
//
// Twilio limits how many API requests of an account run at once: [Concurrent]. It documents neither that number nor a rate for its REST
// API, so give your own. It starts the telephone calls that the API requests at one a second for each account, unless you were granted
// more; it queues what comes faster, for at most a day. The SID in the path identifies the account. If the path has none, it is the user
// name, if that is an account's SID, and otherwise a hash of the credential. Each subaccount is an account.
//
// # How it refuses
//
// Twilio answers 429 with the code 20429. Such a request was never processed, so repeating it is safe whatever its method. Twilio documents
// a Retry-After for single products only; if a reply has one, it applies. Otherwise only the refused request backs off: such a refusal is
// about requests at once, which is over as soon as one ends, and nothing reports that the account exceeds a rate. Without [Concurrent],
// make the policy of the account Adaptive, so that refusals slow it down.
//
// # What the counts report
//
// Twilio-Concurrent-Requests reports how many requests run, but not how many may; it is not used.
//
// # What is not known
//
// How many requests may run at once. Limits within products, such as Verify's for each telephone number, also answer 429, with codes of
// their own or, in Verify, with the account's: such a refusal delays only the refused call. How fast the messages of a number are sent is
// not modelled: Twilio queues them.
package twilio
