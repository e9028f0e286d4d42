package serve

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/page"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// Config configures a [Server].
type Config struct {
	// Path is a headway.yaml, which the Server follows: see [config.Open]. Either Path or File is required.
	Path string
	// File has the upstreams, in place of Path. They do not change.
	File *config.File
	// Root is an upstream whose requests have no prefix: all requests to the proxy go to it. Defaults to none: the first element of a
	// request's path names its upstream.
	Root string
	// Credentials is the path of a file with credentials that are added to requests: see docs/serve.md. Defaults to none.
	Credentials string
	// State is the path of the file that keeps what windows and calendars in memory have counted. Defaults to none.
	State string
	// TooManyRequests answers requests that may not go in time with 429 Too Many Requests. Defaults to 503 Service Unavailable.
	TooManyRequests bool
	// Base sends the requests. Defaults to an [http.Transport] that leaves content codings alone.
	Base http.RoundTripper
	// Logger receives what happens, without anything of requests but their method and upstream. Defaults to slog.Default().
	Logger *slog.Logger

	_ struct{}
}

// A Server is a proxy that paces requests, and an API. Make one with [Open], and close it when you are done. It is safe for concurrent use.
type Server struct {
	config    Config
	log       *slog.Logger
	pacers    *config.Pacers
	memory    *memstore.Store
	upstreams map[string]*upstream
	root      *upstream // nil: the path names the upstream
	held      held
	state     *stateFile // nil: none
	metrics   *metrics
	page      *page.Handler
	ready     atomic.Bool // each store has answered once
	draining  atomic.Bool
	stop      context.CancelFunc // ends what runs in the background
	running   sync.WaitGroup
}

// An upstream is one that the Server paces.
type upstream struct {
	name     string
	base     *url.URL // where the proxy sends requests; nil: nowhere
	hosts    []string // further hosts that a request may name
	pacer    *pacer.Pacer
	calls    caller // the pacer, or its pool
	profile  policies.Profile
	operator *fleet.Operator
	proxy    http.Handler
}

// A caller is a [pacer.Pacer] or a [pacer.Pool].
type caller interface {
	Acquire(ctx context.Context, opts ...pacer.Option) (*pacer.Reservation, error)
	Book(ctx context.Context, opts ...pacer.BookOption) (tok string, wait time.Duration, err error)
	Redeem(ctx context.Context, tok string, opts ...pacer.RedeemOption) (*pacer.Reservation, error)
}

// Open returns a Server for the upstreams of a file. It connects to nothing. It returns a [*pacer.ConfigError], or the mistakes of a file: see
// [config.Mistakes].
func Open(ctx context.Context, c Config) (*Server, error) {
	s := &Server{config: c, log: c.Logger, memory: memstore.New(), upstreams: make(map[string]*upstream)}
	if s.log == nil {
		s.log = slog.Default()
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	err := s.open(ctx)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) (err error) {
	c := &s.config
	if (c.Path == "") == (c.File == nil) {
		return bad("Path", strconv.Quote(c.Path), "give a Path or a File, and not both")
	}
	var secrets credentials
	if secrets, err = readCredentials(c.Credentials); err != nil {
		return err
	}
	if s.metrics, err = newMetrics(); err != nil {
		return err
	}
	if s.state, err = openState(c.State, s.memory, s.log); err != nil {
		return err
	}
	option := func(_ string, p *pacer.Config) {
		if p.Store == nil { // the file names none
			p.Store = s.memory
		}
		p.Hooks, p.Logger = append(p.Hooks, s.metrics.telemetry.Hooks()), s.log
	}
	if c.File != nil {
		s.pacers, err = c.File.Open(option)
	} else {
		s.pacers, err = config.Open(ctx, c.Path, s.changed, option)
	}
	if err != nil {
		return err
	}
	base := c.Base
	if base == nil {
		base = newBase()
	}
	file := s.pacers.File()
	var operators []*fleet.Operator
	for _, name := range file.Upstreams() {
		u, err := s.newUpstream(file, name, secrets[name], base) //nolint:contextcheck // what it observes outlives the opening
		if err != nil {
			return err
		}
		s.upstreams[name] = u
		operators = append(operators, u.operator)
		delete(secrets, name)
	}
	if len(secrets) > 0 {
		return bad("Credentials", c.Credentials, "has an upstream that is not in the file: remove it, or add the upstream") // its name may be a secret
	}
	if c.Root != "" {
		if s.root = s.upstreams[c.Root]; s.root == nil || s.root.base == nil {
			return bad("Root", strconv.Quote(c.Root), "is no upstream with a URL")
		}
	}
	s.page, err = page.New(page.Config{Operators: operators, Hosts: []string{page.AnyHost}}) // the listener checks hosts
	if err != nil {
		return err
	}
	s.running.Go(func() { s.awaitStores(ctx) })
	if s.state != nil {
		s.running.Go(func() { s.state.follow(ctx) })
	}
	return nil
}

func (s *Server) newUpstream(file *config.File, name string, secret *credential, base http.RoundTripper) (*upstream, error) {
	p, err := s.pacers.Pacer(name)
	if err != nil {
		return nil, err
	}
	u := &upstream{name: name, base: file.URL(name), hosts: file.Hosts(name), pacer: p, calls: p, operator: fleet.Of(p)}
	u.profile, _ = file.Profile(name)
	opts := []transport.Option{transport.WithBase(base), transport.WithCallOptions(callOptions), transport.WithLogger(s.log)}
	if secret != nil {
		opt, pool, err := secret.option(p)
		if err != nil {
			return nil, err
		}
		if pool != nil {
			u.calls = pool
		}
		opts = append(opts, opt)
		// A client that may name any host below a domain could have the credential sent to one of its own.
		u.hosts = slices.DeleteFunc(u.hosts, isWildcard)
	}
	rt, err := s.pacers.Transport(name, opts...)
	if err != nil {
		return nil, err
	}
	u.proxy = s.newProxy(u, rt)
	_, err = s.metrics.telemetry.Observe(p) // until Close shuts the provider down
	return u, err
}

// newBase returns the transport that sends requests. It verifies certificates, and passes content codings on as they are.
func newBase() *http.Transport {
	const perHost = 256 // connections that are kept, as many as streams of a connection of HTTP/2
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost: perHost, ForceAttemptHTTP2: true, DisableCompression: true,
	}
}

// changed logs what became of a change of the file.
func (s *Server) changed(err error) {
	if err == nil {
		s.log.Info("headway serve: the file has changed, and the changes are in effect", "file", s.config.Path)
	}
	for _, one := range config.Mistakes(err) {
		s.log.Error("headway serve: a change of the file has no effect", "error", one.Error())
	}
}

// awaitStores waits until each store has answered once. From then on, a store that is away is no reason to send clients elsewhere.
func (s *Server) awaitStores(ctx context.Context) {
	for _, name := range s.names() {
		for p := s.upstreams[name].pacer; ; {
			err := p.Ready(ctx)
			if err == nil {
				break
			}
			if errors.Is(err, pacer.ErrClosed) {
				return
			}
			s.log.Warn("headway serve: not ready", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}
	s.ready.Store(true)
}

// names returns the names of the upstreams, in order.
func (s *Server) names() []string { return s.pacers.File().Upstreams() }

// named returns an upstream.
func (s *Server) named(name string) (*upstream, error) {
	if u := s.upstreams[name]; u != nil {
		return u, nil
	}
	if name == "" && s.root != nil {
		return s.root, nil
	}
	return nil, refusef(http.StatusNotFound, "the path, or in the API the field upstream, names none of the upstreams: there are %s", strings.Join(slices.Sorted(maps.Keys(s.upstreams)), ", "))
}

// Drain refuses new requests. Waiting requests are refused, too, and give their slots back; those that were sent go on. [Server.Run] drains
// when its context ends.
func (s *Server) Drain() {
	s.draining.Store(true)
	var all sync.WaitGroup
	for _, u := range s.upstreams {
		all.Go(func() { _ = u.pacer.Close() }) // it returns no error
	}
	all.Wait()
}

// Close drains, returns the permits of calls that the API still holds, writes the state, and closes pacers and stores.
func (s *Server) Close() error {
	s.Drain()
	s.held.closeAll()
	s.stop()
	s.running.Wait()
	var errs []error
	if s.state != nil {
		errs = append(errs, s.state.write())
	}
	if s.metrics != nil {
		errs = append(errs, s.metrics.provider.Shutdown(context.Background()))
	}
	if s.pacers != nil {
		errs = append(errs, s.pacers.Close())
	}
	return errors.Join(errs...)
}

func bad(field, value, reason string) error {
	return &pacer.ConfigError{In: "serve", Field: field, Value: value, Reason: reason}
}
