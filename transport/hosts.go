package transport

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// hosts are values by host.
type hosts[V any] struct {
	exact map[string]V // by host, or host:port
	below map[string]V // by suffix, ".zendesk.com"
}

// add adds a value for the hosts of a pattern: see [WithHost].
func (h *hosts[V]) add(field, pattern string, v V) error {
	if h.exact == nil {
		h.exact, h.below = make(map[string]V), make(map[string]V)
	}
	name, below := strings.CutPrefix(strings.ToLower(strings.TrimSuffix(pattern, ".")), "*.")
	if name == "" || strings.ContainsAny(name, "*/@?# \t\r\n") || strings.Contains(name, "://") {
		return bad(field, fmt.Sprintf("%q", pattern), `must be a host such as "api.github.com", with or without a port, or a wildcard such as "*.zendesk.com"`)
	}
	values := h.exact
	if below {
		values, name = h.below, "."+name
	}
	if _, twice := values[name]; twice {
		return bad(field, fmt.Sprintf("%q", pattern), "is given twice: leave one of them out")
	}
	values[name] = v
	return nil
}

// of returns the value of a URL's host.
func (h *hosts[V]) of(u *url.URL) (v V, ok bool) {
	if v, ok = h.exact[strings.ToLower(u.Host)]; ok {
		return v, true
	}
	host := hostname(u)
	if v, ok = h.exact[host]; ok {
		return v, true
	}
	for i, c := range host {
		if c != '.' {
			continue
		}
		if v, ok = h.below[host[i:]]; ok {
			return v, true
		}
	}
	return v, false
}

// hostname returns the name of a URL's host, without its port.
func hostname(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") }

// routedKey marks the contexts of requests that a Router sends to a host with a route.
type routedKey struct{}

// maxHops is the longest chain of redirects that is traced back to its first request. An http.Client follows 10 by default.
const maxHops = 100

// isForeign reports whether a redirect has led a request to a host that is not the API's. The API's hosts are that of the first request of
// the chain, and those that WithAPIHosts and a Router name; none is over a connection that is less secure than the first. A chain whose
// first request is unknown is foreign.
func (t *Transport) isForeign(req *http.Request) bool {
	if req.Response == nil || req.URL == nil {
		return false
	}
	first := req
	for n := 0; first.Response != nil; n++ {
		if first = first.Response.Request; n == maxHops || first == nil || first.URL == nil {
			return true
		}
	}
	if to, from := req.URL, first.URL; to.Scheme != "https" && to.Scheme != from.Scheme {
		return true
	} else if hostname(to) == hostname(from) && port(to) == port(from) || req.Context().Value(routedKey{}) != nil {
		return false
	}
	_, named := t.apiHosts.of(req.URL)
	return !named
}

// port returns the port of a URL; "" for that of its scheme.
func port(u *url.URL) string {
	if p := u.Port(); p != map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		return p
	}
	return ""
}

// routed marks a redirected request as one to a host that a Router names.
func routed(req *http.Request) *http.Request {
	if req.Response == nil {
		return req
	}
	return req.WithContext(context.WithValue(req.Context(), routedKey{}, true))
}
