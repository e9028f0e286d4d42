package page

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/page/internal/server"
)

// Defaults and bounds of [Config].
const (
	// DefaultInterval is how often the page asks a pacer while somebody looks.
	DefaultInterval = server.DefaultInterval
	// MinInterval is the shortest Config.Interval.
	MinInterval = 100 * time.Millisecond
)

// A Config says what a page shows.
type Config struct {
	// Pacers are what the page shows, one upstream each. Their upstreams must differ. One that [pacer.NewOperator] returned
	// shows a fleet that this process is not part of. The page does not close them. At least one is required.
	Pacers []*pacer.Pacer

	// Intervene lets whoever sees the page pause, resume and reset. Requests from other sites are refused. Defaults to
	// false: the page only shows.
	Intervene bool

	// Interval is how often a pacer is asked while somebody looks, however many do; at least [MinInterval]. When nobody
	// looks it is not asked. Defaults to [DefaultInterval], 500 ms.
	Interval time.Duration

	_ struct{}
}

// A Handler serves a page: make one with [New]. It is safe for use by many at once.
type Handler struct{ server *server.Handler }

var _ http.Handler = (*Handler)(nil)

// New returns a Handler for the pacers of c, or a [*pacer.ConfigError] that names the first field at fault.
func New(c Config) (*Handler, error) {
	if len(c.Pacers) == 0 {
		return nil, &pacer.ConfigError{In: "page", Field: "Pacers", Value: "empty", Reason: "name at least one pacer to show"}
	}
	if c.Interval != 0 && c.Interval < MinInterval {
		return nil, &pacer.ConfigError{
			In: "page", Field: "Interval", Value: c.Interval.String(),
			Reason: fmt.Sprintf("must be at least %s; 0 for the default", MinInterval),
		}
	}
	sources, seen := make([]server.Source, 0, len(c.Pacers)), make(map[string]bool)
	for i, p := range c.Pacers {
		field := fmt.Sprintf("Pacers[%d]", i)
		if p == nil {
			return nil, &pacer.ConfigError{In: "page", Field: field, Value: "nil", Reason: "give a pacer that pacer.New returned, and check its error first"}
		}
		if seen[p.Upstream()] {
			return nil, &pacer.ConfigError{
				In: "page", Field: field, Value: strconv.Quote(p.Upstream()),
				Reason: "the upstream of an earlier pacer: the page finds them by their upstreams, so give each a page of its own, or name one of them",
			}
		}
		seen[p.Upstream()] = true
		sources = append(sources, p)
	}
	return &Handler{server.New(server.Config{Sources: sources, Intervene: c.Intervene, Interval: c.Interval})}, nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.server.ServeHTTP(w, r) }

// Close ends all streams, so that [http.Server.Shutdown], which waits for them, need not: register it with
// [http.Server.RegisterOnShutdown]. It waits until nothing runs any more that the page has started, and returns nil. Without
// it, the same happens when the last viewer has left.
func (h *Handler) Close() error {
	h.server.Close()
	return nil
}
