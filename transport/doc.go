// Package transport puts a [pacer.Pacer] under any HTTP client. Package inbound, below it, limits the requests to a server.
//
//	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: zendesk.Limits(zendesk.SuiteProfessional)})
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	client, err := transport.NewClient(p, transport.WithProfile(zendesk.Profile)) // an *http.Client: give it to any SDK
//
// A request waits until the pacer admits it, and is sent unchanged. The response is returned unchanged: a final 429 is a response and not
// an error. The pacer first receives what the response reports about limits, for all calls of all processes. If the pacer refuses a
// request, you get the pacer's error, and errors.Is and errors.As find it through *url.Error:
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
// The pacer is inside the retry, so every attempt is paced and charged. When the upstream refuses a call, all calls that the refusal is
// about are held back at once, unless it is a stray one (see package pacer): then only the refused call waits. Set per-attempt timeouts in
// the base transport (WithBase): http.Client.Timeout includes the wait.
//
// [New] returns only the paced [http.RoundTripper]. Use it for an SDK that retries by itself or that accepts a transport. Put it below
// authentication and above tracing. [NewRouter] sends each request of one client to the transport of its host.
//
// # Signatures
//
// A request that is signed above the transport is signed before the wait. A signature with a date, such as that of AWS, may have expired
// when the request is sent. [WithSigner] signs each attempt after its wait. For the AWS SDK, use pacer/awspacer, which paces calls before
// the SDK signs them.
//
// # Profiles
//
// A profile ([policies.Profile]) describes a vendor's API: the scopes and costs of a request, which replies are refusals, and which limits
// their fields are about. Each vendor has a profile in a package below policies/, and [WithProfile] sets it. The default is the generic
// profile of package ietf: 429, Retry-After and the RateLimit fields. With [WithScope], [WithCost] and [WithLane], functions of your own
// read scopes, costs and lanes from a request.
//
// Without a vendor's profile, it is unknown which limit a reply is about: a 429 that is not stray, or a count of 0, stops every call of the
// widest scope that applies to the request. If the API limits each endpoint separately, [WithEndpoint] confines a reply to its endpoint.
//
// Some profiles also read the start of the body, if the status is ambiguous. You still get the whole body. If you set Accept-Encoding
// yourself, net/http does not decode the body: the transport then decodes what the profile reads (gzip, deflate, br and zstd), and you get
// the encoded bytes. If the body has not started to arrive after a second, the profile uses status and header only.
//
// Some profiles charge an estimate and correct it later: at once if status and header show the cost, as they do for failed calls, and
// otherwise when you have read the body to its end or close it, by what was read. Some profiles then also read what the body reports about
// limits. They see the first and the last 64 KiB of what you read, and nothing between them. Nothing is held back for that: a stream of
// events passes as it comes. Until then, such a call keeps up to 160 KiB in memory, and 128 KiB more while the profile reads them. Of an
// encoded body, up to 512 KiB are kept; of a longer one, the profile sees nothing. The profiles of LLM vendors learn their estimates from
// earlier calls: see [pacer.EstimateOf].
//
// # Redirects
//
// An http.Client sends a request of its own for each hop of a redirect. A hop is a call of the API if it goes to the host and port of the
// first request, or to a host that [WithAPIHosts] or [WithHost] names, and not from https to http. Such a hop is paced and charged like any
// request. Any other hop is foreign: it goes straight to the base transport. It is neither paced, charged nor repeated, gets no credential
// of [WithSigner] or [WithPool], holds no permit, and its reply changes nothing, whatever limits it reports.
//
// The chain is found by http.Request.Response. So a layer that follows redirects or links with new requests begins a new chain with each:
// check the hosts above the transport, or use a Router without a fallback.
//
// # Retries
//
// [NewClient] always repeats a 429, because the upstream has not processed the request. A profile can decide otherwise: it recognises
// refusals with another status, and those not worth repeating, such as a spent quota. Connection errors and statuses of 500 and above,
// except 501, are repeated only if that is safe: for GET, HEAD, OPTIONS, TRACE, PUT and DELETE, and for any method with an Idempotency-Key
// or X-Idempotency-Key header. A body without GetBody cannot be sent twice, so such a request gets one attempt.
//
// The wait is Retry-After, or a back-off if there is none ([WithBackoff]). The transport reserves the slot of the next attempt before it
// discards the response. If there is no slot within MaxWait or the deadline, you get that response unchanged. If a pause that is reported
// while the retry waits is too long for it, you get the pacer's refusal, because the response was discarded by then.
//
// # Calls in flight
//
// If a policy counts calls in flight, each attempt gets a permit. The transport returns it when you close the body, read it to its end or
// to an error, or end the request's context, whichever comes first. If you do none of these, its lease runs out.
//
// # Bounds
//
// MaxWait bounds the wait of each attempt, and the context's deadline bounds all attempts together. A response that reports a limit is held
// back until the store has recorded it, for at most 5 s. If the base transport fails, the charge stays, because the upstream may have seen
// the call. The request is never changed, and its body is closed on every path.
package transport
