// Package transport puts a [pacer.Pacer] under any HTTP client, and in front of any HTTP handler.
//
//	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: zendesk.Limits(zendesk.SuiteProfessional)})
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	client, err := transport.NewClient(p, transport.WithProfile(zendesk.Profile)) // an *http.Client: give it to any SDK
//
// A request waits for the pacer and goes as it is. The response comes back as it is: a final 429 is a response and not
// an error. What it reports about limits goes to the pacer first, so that all calls of all processes heed it. If the pacer
// refuses a request, you get its error, which works with errors.Is and errors.As through *url.Error:
//
//	resp, err := client.Do(req)
//	if errors.Is(err, pacer.ErrNotYet) {
//		return later(req) // its turn is beyond MaxWait or the context's deadline; nothing was sent or charged
//	}
//
// # The chain
//
//	SDK → http.Client (redirects) → retry (go-retryablehttp) → pacer → base transport
//
// The pacer is inside the retry, so every attempt is paced and charged. A refusal by the upstream holds back all calls at
// once, instead of the one that received it. Per-attempt timeouts belong into the base transport, which [WithBase] sets:
// http.Client.Timeout includes the wait.
//
// [New] returns only the paced [http.RoundTripper]. Use it for an SDK that retries by itself or that takes a transport. Put
// it below authentication and above tracing. [NewRouter] sends each request of one client to the transport of its host.
//
// # Signatures
//
// What is signed above the transport is signed before the wait. A signature with a date, such as those of AWS, may have expired when the
// request is sent. [WithSigner] signs each attempt when its wait is over. For the AWS SDK there is pacer/awspacer, which paces calls before
// the SDK signs them.
//
// # Profiles
//
// A profile ([policies.Profile]) describes a vendor's API: to which scopes a request belongs, what it costs, which replies
// are refusals, and which limits their fields mean. Each vendor has one below policies/; [WithProfile] sets it. The default
// is the generic profile of package ietf: 429, Retry-After and the RateLimit fields. [WithScope], [WithCost] and [WithLane]
// read the same from a request with functions of your own.
//
// Without a vendor's profile nothing says whose limit a reply is about: a 429, or a count of 0, stops every call of the widest
// scope. If the API limits each endpoint, [WithEndpoint] confines what a reply says to its endpoint.
//
// Some profiles read the start of a body where the status is not enough. The transport puts it back. If you set
// Accept-Encoding yourself, net/http leaves the body as it was encoded: the transport decodes what a profile reads (gzip,
// deflate, br and zstd), and you get the bytes as they came. A body that has not started to come after a second holds up
// nobody: the profile goes by status and header.
//
// Some profiles charge an estimate, and correct it: at once where status and header tell what the call cost, as of calls that failed,
// and otherwise when you have read the body to its end or close it, as far as it was read. Those of models learn their estimates from
// what calls before really cost: see [pacer.LearnedOf].
//
// # Retries
//
// [NewClient] always repeats a 429, because the upstream has not processed the request. The profile can judge otherwise:
// it knows the refusals that have another status, and those that are not worth repeating, such as a spent quota. Errors of
// the connection and the statuses from 500 on, except 501, are repeated only if that is safe: for GET, HEAD, OPTIONS,
// TRACE, PUT and DELETE, and for any method with an Idempotency-Key or X-Idempotency-Key header. A body without GetBody
// cannot be sent twice, so such a request gets one attempt.
//
// The wait is Retry-After, or else a back-off ([WithBackoff]). Before the transport gives an attempt up, it reserves the
// slot of the next one. If there is no slot within MaxWait or the deadline, you get the last response as it came. A pause
// that is reported while the retry waits can still be too long for it. By then the response is gone, and you get the
// pacer's refusal.
//
// # Calls in flight
//
// If a policy counts calls in flight, each attempt gets a permit. The transport returns it when you close the body, read it
// to its end or to an error, or end the request's context, whichever comes first. If you do none of these, its lease runs
// out.
//
// # Inbound requests
//
// [Limit] is for the other side: it admits the requests that a server gets by the same policies, and answers those that may not go now
// with a 429, a Retry-After and the RateLimit fields. No request waits.
//
// # Bounds
//
// MaxWait bounds the wait of each attempt, and the context's deadline bounds all of them. A response that reports a limit is
// held back until the store has noted it, for 5 s at most. If the base transport fails, the charge stays, because the
// upstream may have seen the call. The request is never changed, and its body is closed on every path.
package transport
