// Package server serves the page: its files, a stream of events, and JSON. Its data comes from a [Source], which tests can replace.
package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

// A Source is an upstream to show. A [*fleet.Operator] is one.
type Source interface {
	Upstream() string
	MaxPause() time.Duration
	Policies() []policies.Policy
	Snapshot(ctx context.Context, opts ...pacer.ScopeOption) (*fleet.Snapshot, error)
	Pause(ctx context.Context, d time.Duration, names []string, opts ...pacer.ScopeOption) error
	Resume(ctx context.Context, opts ...pacer.ScopeOption) error
	Reset(ctx context.Context, opts ...pacer.ScopeOption) error
}

var _ Source = (*fleet.Operator)(nil)

// Bounds of a page's work.
const (
	// DefaultInterval is how often a source with viewers is polled.
	DefaultInterval = 500 * time.Millisecond
	// heartbeat is the longest silence of a stream.
	heartbeat = 10 * time.Second
	// patience bounds how long a source takes to answer, and a browser to read.
	patience = 5 * time.Second
	// maxViewers is the most streams of an upstream.
	maxViewers = 256
	// maxForm bounds the bytes of an intervention.
	maxForm = 16 << 10
)

// A Config sets what to serve. It has at least one source, all of different upstreams.
type Config struct {
	Sources   []Source
	Intervene bool
	Interval  time.Duration // 0: DefaultInterval
	Hosts     []string      // besides loopback; AnyHost for every one
}

// A Handler serves the page at any path that ends in a slash, and everything else relative to that.
type Handler struct {
	names     []string // of the upstreams, in the order given
	feeds     map[string]*feed
	files     map[string]file
	intervene bool
	origins   *http.CrossOriginProtection
	hosts     hosts

	life  context.Context //nolint:containedctx // what pollers live in: they outlive the request that started them
	end   context.CancelFunc
	polls sync.WaitGroup
}

// New returns a Handler.
func New(c Config) *Handler {
	h := &Handler{
		feeds: make(map[string]*feed), files: embedded(),
		intervene: c.Intervene, origins: http.NewCrossOriginProtection(), hosts: newHosts(c.Hosts),
	}
	h.life, h.end = context.WithCancel(context.Background())
	for _, s := range c.Sources {
		h.names = append(h.names, s.Upstream())
		h.feeds[s.Upstream()] = &feed{
			source: s, every: cmp.Or(c.Interval, DefaultInterval),
			page: h, viewers: make(map[*viewer]struct{}), wake: make(chan struct{}, 1),
		}
	}
	return h
}

// Close ends the streams and the pollers, and waits for the latter.
func (h *Handler) Close() {
	h.end()
	for _, f := range h.feeds {
		f.close()
	}
	h.polls.Wait()
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	switch {
	case !h.hosts.accept(r):
		fail(w, http.StatusMisdirectedRequest, fmt.Errorf("this page is not for host %q: if it is yours, name it in page.Config.Hosts", r.Host))
		return
	case r.Method == http.MethodPost:
		h.act(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "The page answers GET and HEAD.", http.StatusMethodNotAllowed)
		return
	}
	name := path.Base(r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/") {
		name = "index.html"
	}
	switch name {
	case "events":
		h.stream(w, r)
		return
	case "fleet.json":
		h.fleet(w, r)
		return
	}
	if f, ok := h.files[name]; ok {
		f.serve(w, r)
		return
	}
	if strings.Contains(strings.TrimLeft(name, "."), ".") {
		http.NotFound(w, r)
		return
	}
	toSlash(w, r)
}

// toSlash redirects from a mount point to the same with a slash, which relative addresses need. The mount point may have been stripped, so
// it uses the last element of the requested path.
func toSlash(w http.ResponseWriter, r *http.Request) {
	requested, query, _ := strings.Cut(r.RequestURI, "?")
	if requested == "" || strings.HasSuffix(requested, "/") { // a proxy cut off the prefix and its slash: nothing better is known
		http.NotFound(w, r)
		return
	}
	to := "./" + requested[strings.LastIndexByte(requested, '/')+1:] + "/"
	if query != "" {
		to += "?" + query
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusPermanentRedirect)
}

// harden sets what holds for every answer.
func harden(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "+
		"img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// feedOf returns the feed of an upstream, the first one if the name is empty. For an unknown one it writes an error, and returns nil.
func (h *Handler) feedOf(w http.ResponseWriter, upstream string) *feed {
	if f := h.feeds[cmp.Or(upstream, h.names[0])]; f != nil {
		return f
	}
	fail(w, http.StatusNotFound, fmt.Errorf("there is no upstream %q here, but %s", upstream, strings.Join(h.names, ", ")))
	return nil
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		data, status = []byte(`{"error":"the answer cannot be written as JSON"}`), http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // who does not read has gone
}

// fail writes an error as JSON.
func fail(w http.ResponseWriter, status int, err error) {
	answer(w, status, trouble{Error: err.Error()})
}

// A trouble is what went wrong.
type trouble struct {
	Error string `json:"error"`
}
