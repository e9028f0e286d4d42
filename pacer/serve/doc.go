// Package serve lets programs in any language share the limits of a headway.yaml, by HTTP: the command "headway serve" is this package
// with flags. docs/serve.md shows how to use it.
//
//	s, err := serve.Open(ctx, serve.Config{Path: "headway.yaml"})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	proxy, err := serve.Listen(serve.Endpoint{Address: "127.0.0.1:8712"})
//	...
//	api, err := serve.Listen(serve.Endpoint{Address: "127.0.0.1:8713"})
//	...
//	return s.Run(ctx, proxy, api)
//
// There are two listeners, so that no path of an upstream is shadowed:
//
//	client --> Proxy: /<upstream>/path --> httputil.ReverseProxy --> transport (waits, repeats, reads replies) --> upstream
//	client --> API:   /v1/acquire ... --> pacer.Pacer.Acquire, or Book and Redeem; the client then makes the call itself
//
// # Guarantees
//
//   - A request goes only to the URL of an upstream in the file, or to one of its hosts, and redirects are not followed.
//   - A request whose client goes away while it waits gives its slot back.
//   - A request that may not go in time is answered with a problem (RFC 9457) that names policy and key, and is not charged.
//   - Each client's cost in memory and time is bounded, whatever it sends or does not send.
//   - Replies, logs, metrics, the status and the page never include a credential.
//
// # State
//
// Upstreams without a store in Redis are paced in memory. With Config.State, what windows and calendars have counted is written to a file
// each second and at the end, and read at the start. A restart forgets the rest: what rates know, which is a burst at most, permits,
// bookings, what replies reported, and the calls of windows in the last second before a crash.
package serve
