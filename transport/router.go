package transport

import (
	"fmt"
	"net/http"

	"github.com/headway-go/headway/pacer"
)

// A Router is an [http.RoundTripper] for clients that call many APIs: it sends each request through the transport of its host. Make one
// with [NewRouter]. It is safe for concurrent use.
//
// An http.Client makes a request of its own for each hop of a redirect. A redirect to a host that [WithHost] names is paced by that host's
// pacer, and has its credential. The transport of [WithFallback] receives it as any redirect to another host: see package transport.
type Router struct {
	hosts    hosts[http.RoundTripper]
	fallback http.RoundTripper // nil: refused
}

var _ http.RoundTripper = (*Router)(nil)

// A RouterOption sets the transport of a host.
type RouterOption func(*Router) error

// NewRouter returns a Router with these routes. It returns a [*pacer.ConfigError] for a bad or repeated host and for a nil
// transport. Requests to other hosts are refused with a [*HostError], unless [WithFallback] sets a transport for them.
func NewRouter(opts ...RouterOption) (*Router, error) {
	r := new(Router)
	for i, opt := range opts {
		if opt == nil {
			return nil, bad(fmt.Sprintf("RouterOption %d", i), "nil", "leave it out")
		}
		if err := opt(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// WithHost sends the requests to a host through rt, such as a transport that [New] returns, or the Transport of a client that [NewClient]
// returns. The pattern is a host ("api.github.com"), a host with a port ("127.0.0.1:8080"), or all names below a domain
// ("*.zendesk.com"). A host takes precedence over a wildcard, and a longer wildcard over a shorter one. Case does not matter.
func WithHost(pattern string, rt http.RoundTripper) RouterOption {
	return func(r *Router) error {
		if rt == nil {
			return bad("Host "+pattern, "nil", "give the transport that serves it")
		}
		return r.hosts.add("Host", pattern, rt)
	}
}

// WithFallback sends the requests to all hosts without a route through rt. With [http.DefaultTransport], they are not paced. Defaults to
// a refusal.
func WithFallback(rt http.RoundTripper) RouterOption {
	return func(r *Router) error {
		if rt == nil {
			return bad("Fallback", "nil", "give a transport such as http.DefaultTransport, or leave it out to refuse such requests")
		}
		r.fallback = rt
		return nil
	}
}

// RoundTrip implements [http.RoundTripper]. It returns a [*HostError] for a host without a route.
func (r *Router) RoundTrip(req *http.Request) (*http.Response, error) {
	host := ""
	if req.URL != nil {
		if rt, ok := r.hosts.of(req.URL); ok {
			return rt.RoundTrip(routed(req))
		}
		host = req.URL.Hostname()
	}
	if r.fallback != nil {
		return r.fallback.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return nil, &HostError{Host: host}
}

// CloseIdleConnections closes the idle connections of the transports of all routes: [http.Client.CloseIdleConnections] calls it.
func (r *Router) CloseIdleConnections() {
	for _, routes := range []map[string]http.RoundTripper{r.hosts.exact, r.hosts.below, {"": r.fallback}} {
		for _, rt := range routes {
			if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
				c.CloseIdleConnections()
			}
		}
	}
}

// A HostError is the refusal of a [Router] without a route for a host. It matches [pacer.ErrRefused]: nothing was sent or charged.
type HostError struct {
	Host string

	_ struct{}
}

// Error implements error.
func (e *HostError) Error() string {
	return fmt.Sprintf("transport: no route for host %q: add one with transport.WithHost, or let others through with transport.WithFallback", e.Host)
}

// Is matches [pacer.ErrRefused].
func (e *HostError) Is(target error) bool { return target == pacer.ErrRefused }
