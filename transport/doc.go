// Package transport puts a [pacer.Pacer] under any HTTP client.
//
//	client, err := transport.NewClient(p) // an *http.Client: give it to any SDK
//
// # The chain
//
//	SDK → http.Client (redirects) → retry (go-retryablehttp) → pacer → base transport
//
// The pacer is inside the retry, so that every attempt is paced and pays, and a "slow down" is heard by
// everyone at once instead of being slept off by one request. [New] gives the paced [http.RoundTripper]
// alone, for SDKs that retry by themselves or that take a transport; put it below authentication and above
// tracing. Put per-attempt timeouts below it, in the base transport: http.Client.Timeout covers the waiting,
// too.
//
// # What the transport does
//
// It waits for the pacer, sends the request as it is, and returns the response as it is: a final 429 is a
// response and not an error. What the response says about limits it reports to the pacer first. A refusal by the pacer
// is returned as an error that works with errors.Is and errors.As through *url.Error. The contract of
// [http.RoundTripper] is kept on every path: the request is not changed, its body is closed.
//
// # Profiles
//
// A profile ([policies.Profile]) knows a vendor's API: to which scopes a request belongs, what it costs, which
// replies say "slow down" and which limit they mean, and what header fields tell of what is left. There is one for
// each vendor below policies/:
//
//	client, err := transport.NewClient(p, transport.WithProfile(zendesk.Profile))
//
// The default is the generic profile of package ietf: 429, Retry-After, and the RateLimit fields. Some profiles look at
// the begin of a body, where the status alone does not tell; it is put back. Some correct what a call was charged when
// the caller has read the body to its end, where the upstream tells the cost.
//
// # Calls in flight
//
// Where a policy counts calls in flight, the transport takes a place before each attempt, and gives it back when the body is
// closed, or read to its end, or fails, or the request's context is done, whichever is first: SDKs do not always close
// bodies. A body that is neither closed nor read keeps its place until its lease runs out.
//
// # Many APIs
//
// [NewRouter] sends the requests of one client to the transport of their host. [http.Client] follows redirects outside
// of it, so each hop is paced by its own host's pacer.
//
// # What is retried
//
// [NewClient] retries a 429 always, because it was not processed, unless the profile judges otherwise: it knows the
// refusals that come with another status, and those that are not worth repeating, such as a spent quota. Errors of
// the connection and the statuses 500 and up (but 501) are retried only if the request can safely be repeated: GET,
// HEAD, OPTIONS, TRACE, PUT, DELETE, or any method with an Idempotency-Key or X-Idempotency-Key header. A body
// without GetBody cannot be sent twice, so such a request gets one attempt. The waiting happens in the pacer's line:
// before an attempt is given up, the next one reserves its slot, no earlier than the back-off. If there is none
// within MaxWait or the deadline, the last response is returned as it came.
//
// go-retryablehttp reads bodies into memory, ignores GetBody, retries POST, obeys any Retry-After, follows
// redirects by itself, logs to stderr and closes idle connections on failure; the http.Client inside it reads
// the Location of redirects that it may not follow, and refuses requests that came to a server. None of that
// happens here, because both are only ever shown a stub: the base transport gets the caller's own request.
// The tests name each of these traps.
//
// # Limits
//
// MaxWait bounds the wait of each attempt, and the context's deadline that of all of them together. A
// response that says "slow down" is held back until the store has noted it, for 5 s at most. If the base
// transport fails, the charge stays, because the upstream may have seen the call. A response whose retry then
// finds no slot any more, because a longer pause was reported meanwhile, is gone: the pacer's refusal is
// returned in its place.
package transport
