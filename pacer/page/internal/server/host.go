package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// AnyHost stands for every host in Config.Hosts.
const AnyHost = "*"

// hosts are the names of the page, besides those of loopback.
type hosts map[string]bool

func newHosts(names []string) hosts {
	h := make(hosts, len(names))
	for _, name := range names {
		h[plain(name)] = true
	}
	return h
}

// accept reports whether a request is for a host of the page. Any other may be from a site that has pointed a name of its own at the page
// (DNS rebinding): to a browser, page and site are then one.
func (h hosts) accept(r *http.Request) bool {
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = plain(name)
	if h[AnyHost] || h[name] || name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761 section 6.3
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// plain returns a host for comparison: in lower case, without the dot at the end of a name or the brackets of an address.
func plain(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inner, "]") {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
