package page

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/page/internal/server"
)

// Defaults and bounds of [Config].
const (
	// DefaultInterval is how often the page reads an operator's state while it has viewers.
	DefaultInterval = server.DefaultInterval
	// MinInterval is the shortest Config.Interval.
	MinInterval = 100 * time.Millisecond
)

// AnyHost in Config.Hosts accepts every host.
const AnyHost = server.AnyHost

// A Config configures a page.
type Config struct {
	// Operators are the upstreams that the page shows, which must differ. [fleet.Of] makes an operator of a Pacer of this process,
	// [fleet.Open] one of another fleet. The page does not close them. At least one is required.
	Operators []*fleet.Operator

	// Hosts are the names and addresses by which browsers reach the page, without a port, such as "ops.example" or "10.0.0.7". A request
	// for another host is refused with 421: it may come from a site that has pointed a name of its own at the page (DNS rebinding), so that
	// the browser takes the site and the page for one. Loopback is always accepted: localhost, names that end in .localhost, 127.0.0.0/8
	// and ::1. [AnyHost] accepts every host: only behind something that checks it. Defaults to loopback only.
	Hosts []string

	// Intervene lets anyone who can open the page pause, resume and reset. Requests from other sites are refused. Defaults to false: the
	// page only shows.
	Intervene bool

	// Interval is how often the page reads an operator's state, for all viewers; at least [MinInterval]. Without viewers it does not read.
	// Defaults to [DefaultInterval], 500 ms.
	Interval time.Duration

	_ struct{}
}

// A Handler serves a page: make one with [New]. It is safe for concurrent use.
type Handler struct{ server *server.Handler }

var _ http.Handler = (*Handler)(nil)

// New returns a Handler for the operators of c, or a [*pacer.ConfigError] that names the first field at fault.
func New(c Config) (*Handler, error) {
	if len(c.Operators) == 0 {
		return nil, bad("Operators", "empty", "name at least one operator to show")
	}
	if c.Interval != 0 && c.Interval < MinInterval {
		return nil, bad("Interval", c.Interval.String(), fmt.Sprintf("must be at least %s; 0 for the default", MinInterval))
	}
	for i, host := range c.Hosts {
		if !validHost(host) {
			return nil, bad(fmt.Sprintf("Hosts[%d]", i), strconv.Quote(host),
				`must be a name or an address without a port, such as "ops.example", "10.0.0.7" or "::1", or page.AnyHost`)
		}
	}
	sources, seen := make([]server.Source, 0, len(c.Operators)), make(map[string]bool)
	for i, op := range c.Operators {
		field := fmt.Sprintf("Operators[%d]", i)
		if op == nil {
			return nil, bad(field, "nil", "give an operator that fleet.Of or fleet.Open returned, and check its error first")
		}
		if seen[op.Upstream()] {
			return nil, bad(field, strconv.Quote(op.Upstream()),
				"the upstream of an earlier operator: the page finds them by their upstreams, so give each a page of its own, or name one of them")
		}
		seen[op.Upstream()] = true
		sources = append(sources, op)
	}
	return &Handler{server.New(server.Config{Sources: sources, Intervene: c.Intervene, Interval: c.Interval, Hosts: c.Hosts})}, nil
}

func bad(field, value, reason string) error {
	return &pacer.ConfigError{In: "page", Field: field, Value: value, Reason: reason}
}

// validHost reports whether a request can be for this host.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == AnyHost || host != "" && !strings.ContainsAny(host, ":/[]@?#* ")
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.server.ServeHTTP(w, r) }

// Close ends all streams, so that [http.Server.Shutdown] does not wait for them: register it with [http.Server.RegisterOnShutdown]. It
// waits until everything that the page started has ended, and returns nil. Without Close, that happens when the last viewer has left.
func (h *Handler) Close() error {
	h.server.Close()
	return nil
}
