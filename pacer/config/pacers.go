package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/transport"
)

// Pacers are the pacers of a file's upstreams, with their stores. Make them with [Open] or [File.Open], and close them when you are done.
// They are safe for concurrent use.
type Pacers struct {
	mu      sync.Mutex
	file    *File            // whose policies hold
	started *File            // whose everything else holds
	live    map[string]*live // by upstream
	opts    []PacerOption
	clients []redis.UniversalClient
	stop    func() // ends the watching; nil if there is none
	closed  sync.Once
	err     error // of closing
}

// live is a pacer that runs.
type live struct {
	pacer *pacer.Pacer
	holds *upstream // whose policies it has
}

// A PacerOption changes the configuration of an upstream's pacer, such as its Hooks, its Logger or its Name. The settings of the file are
// already in c. It is called again when the file changes, so that it can add its policies to those of the file again.
type PacerOption func(upstream string, c *pacer.Config)

// Open makes the stores that upstreams name, and a pacer for each upstream. It connects to nothing: use [pacer.Pacer.Ready] to check
// whether a store can be reached. It reads the environment variables that the file names, and returns an [*Error] if one is not set.
func (f *File) Open(opts ...PacerOption) (*Pacers, error) {
	p := &Pacers{file: f, started: f, live: make(map[string]*live), opts: opts}
	stores := make(map[*storeDef]store.Store)
	var mistakes []error
	for _, u := range f.upstreams {
		s, opened := stores[u.store]
		if !opened && u.store != memory {
			var err error
			if s, err = p.open(u.store); err != nil {
				mistakes = append(mistakes, err)
			}
			stores[u.store] = s // a mistake is reported once
		}
		one, err := pacer.New(p.configOf(u, s))
		if err != nil {
			mistakes = append(mistakes, u.at.wrap(err))
			continue
		}
		p.live[u.name] = &live{pacer: one, holds: u}
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(append(mistakes, p.Close())...)
	}
	return p, nil
}

// configOf returns the configuration of an upstream's pacer.
func (p *Pacers) configOf(u *upstream, s store.Store) pacer.Config {
	c := u.config
	c.Upstream, c.Policies, c.Store = u.name, slices.Clone(u.policies), s
	for _, opt := range p.opts {
		opt(u.name, &c)
	}
	return c
}

// open makes a store.
func (p *Pacers) open(s *storeDef) (store.Store, error) {
	o, err := s.options()
	if err != nil {
		return nil, err
	}
	client := redis.NewUniversalClient(o)
	p.clients = append(p.clients, client)
	opened, err := redisstore.New(client)
	if err != nil {
		return nil, s.at.place().wrap(err)
	}
	return opened, nil
}

// Open loads a file, makes its pacers, and follows the file until ctx ends or the Pacers are closed. Changed policies take effect at once.
// For each change, Open calls report: with nil if all of it took effect, otherwise with the error of [Load] or [Pacers.Apply]. A file with
// mistakes changes nothing. If report is nil, slog's default logger receives the outcome. Reports come one at a time, in order, up to a second
// after Close; while one hangs, changes take effect all the same, and up to 100 reports wait.
func Open(ctx context.Context, path string, report func(error), opts ...PacerOption) (*Pacers, error) {
	f, err := Load(path)
	if err != nil {
		return nil, err
	}
	p, err := f.Open(opts...)
	if err != nil {
		return nil, err
	}
	reports := &telemetry.Queue{Most: 100}
	outcome := func(applied bool, err error) {
		reports.Add(func() {
			if report == nil {
				logChange(ctx, slog.Default(), path, applied, err)
			} else {
				report(err)
			}
		})
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	p.stop = func() {
		cancel()
		<-done
		reports.Wait(time.After(telemetry.CloseTimeout))
	}
	go func() {
		defer close(done)
		err := watch(ctx, path, string(f.hash[:]), func(f *File, err error) { //nolint:contextcheck // what is applied is checked, though ctx ends
			applied := false
			if err == nil {
				applied, err = p.apply(f)
			}
			outcome(applied, err)
		})
		if err != nil {
			outcome(false, err)
		}
	}()
	return p, nil
}

// logChange logs the outcome of a change. applied reports whether a part of it took effect.
func logChange(ctx context.Context, logger *slog.Logger, path string, applied bool, err error) {
	text := "headway: a change of the file has no effect"
	switch {
	case err == nil:
		logger.InfoContext(ctx, "headway: the file has changed, and the changes are in effect", "file", path)
	case applied:
		text = "headway: the file has changed: applied, except for this"
	}
	for _, one := range Mistakes(err) {
		logger.ErrorContext(ctx, text, "file", path, "error", one.Error())
	}
}

// File returns the file whose policies are in effect.
func (p *Pacers) File() *File {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.file
}

// Pacer returns the pacer of an upstream, which [Pacers.Close] closes, or a [*pacer.ConfigError] if the file did not have the upstream when
// the program started.
func (p *Pacers) Pacer(upstream string) (*pacer.Pacer, error) {
	if l := p.live[upstream]; l != nil {
		return l.pacer, nil
	}
	return nil, &pacer.ConfigError{
		In: "config", Field: "Upstream", Value: strconv.Quote(upstream), Reason: fmt.Sprintf("is not in %s: it has %s", p.started.name, p.started.names()),
	}
}

// Transport returns a transport that paces requests to an upstream and repeats them if that is safe, as that of [transport.NewClient] does,
// with the profile that the file names.
func (p *Pacers) Transport(upstream string, opts ...transport.Option) (http.RoundTripper, error) {
	one, err := p.Pacer(upstream)
	if err != nil {
		return nil, err
	}
	profile, _ := p.started.Profile(upstream)
	client, err := transport.NewClient(one, append([]transport.Option{transport.WithProfile(profile)}, opts...)...)
	if err != nil {
		return nil, err
	}
	return client.Transport, nil
}

// Client returns the one client that all calls of a program should come from: it sends each request through the transport of its host's
// upstream, and refuses one to a host that the file does not name, with a [*transport.HostError]. It reaches a host that the file lists as
// unpaced through [http.DefaultTransport]. The options apply to the transports of all upstreams; [Pacers.Transport] is for an upstream that
// needs options of its own. For what takes a RoundTripper, use the client's Transport.
func (p *Pacers) Client(opts ...transport.Option) (*http.Client, error) {
	var routes []transport.RouterOption
	for _, u := range p.started.upstreams {
		if len(u.hosts) == 0 {
			continue
		}
		rt, err := p.Transport(u.name, opts...)
		if err != nil {
			return nil, err
		}
		for _, host := range u.hosts {
			routes = append(routes, transport.WithHost(host, rt))
		}
	}
	for _, host := range p.started.unpaced {
		route := transport.WithHost(host, http.DefaultTransport)
		if host == allHosts {
			route = transport.WithFallback(http.DefaultTransport)
		}
		routes = append(routes, route)
	}
	rt, err := transport.NewRouter(routes...)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: rt}, nil
}

// Apply applies another version of the file, as far as possible while the program runs: the policies, with their overrides, of upstreams
// that the file had when the program started. It returns an [*Error] that matches [ErrRestart] for each other change since then, one that
// matches [ErrOverruled] for each limit set at run time that overrides changed policies, and one for policies that a pacer rejected, all
// joined. Everything else takes effect nevertheless.
func (p *Pacers) Apply(f *File) error {
	_, err := p.apply(f)
	return err
}

// apply is Apply, and reports whether any policies took effect.
func (p *Pacers) apply(f *File) (applied bool, err error) {
	errs, checks := p.declare(f)
	for _, check := range checks {
		errs = append(errs, check()...)
	}
	return len(checks) > 0, errors.Join(errs...)
}

// declare declares changed policies. It also returns functions that check, in some time, whether they hold.
func (p *Pacers) declare(f *File) (errs []error, checks []func() []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	errs = p.restarts(f)
	for _, u := range f.upstreams {
		l := p.live[u.name]
		if l == nil {
			continue
		}
		was := l.holds
		if u.policiesKey() == was.policiesKey() {
			continue
		}
		if err := l.pacer.Declare(p.configOf(u, nil).Policies...); err != nil {
			errs = append(errs, u.policiesAt.wrap(err))
			continue
		}
		l.holds = u
		checks = append(checks, func() []error { return l.overruled(was, u) })
	}
	p.file = f
	return errs, checks
}

// overruled returns an error that matches ErrOverruled for each limit set at run time that overrides a change of the file.
func (l *live) overruled(was, now *upstream) (errs []error) {
	set, err := fleet.Of(l.pacer).Settings(context.Background()) // for at most the StoreTimeout
	switch {
	case errors.Is(err, store.ErrNoSettings):
		return nil
	case err != nil:
		return []error{now.policiesAt.wrap(fmt.Errorf("has changed; whether limits that were set at run time hold instead is not known: %w", err))}
	}
	add := func(s *fleet.Setting, what, undo string) {
		until := s.Until.UTC().Format(time.RFC3339) + " or "
		if s.Until.IsZero() {
			until = ""
		}
		errs = append(errs, now.policiesAt.wrap(fmt.Errorf("%w: %q for %s, set at %s, until %sheadway %s %s",
			ErrOverruled, s.Text, what, s.Since.UTC().Format(time.RFC3339), until, undo, now.name)))
	}
	if set.Policies != nil && set.Policies.Err == nil {
		add(set.Policies, "the whole upstream", "unset")
	}
	for i := range set.Limits {
		if one := &set.Limits[i]; one.Err == nil && now.textOf(one.Policy) != was.textOf(one.Policy) {
			add(one, one.Scope, "unlimit")
		}
	}
	return errs
}

// restart returns an error about a change that takes effect at the next start.
func restart(at place, what, now string) error {
	return at.wrap(fmt.Errorf("%s %w: until then, %s", what, ErrRestart, now))
}

// settingsText names the fields that settingsKey compares.
const settingsText = "one of its settings (maxWait, maxPause, jitter, maxLate, storeTimeout, ignoreCounts, processes, outage)"

// restarts returns an error for each change, except of policies, since the program started.
func (p *Pacers) restarts(f *File) []error {
	var errs []error
	for _, was := range p.started.upstreams {
		if f.byName[was.name] == nil {
			at := place{file: f.name, path: was.at.path}
			errs = append(errs, restart(at, "the upstream is not in the file any more, which", "it is paced as before"))
		}
	}
	if !slices.Equal(f.unpaced, p.started.unpaced) {
		errs = append(errs, restart(place{file: f.name, path: "unpaced"}, "the list of unpaced hosts", "the previous setting stays in effect"))
	}
	for _, u := range f.upstreams {
		was := p.started.byName[u.name]
		if was == nil {
			errs = append(errs, restart(u.at, "the upstream is new in the file, which", "it has no pacer"))
			continue
		}
		for _, one := range []struct {
			what     string
			at       place
			now, was string
		}{
			{"its store", u.at, u.store.key(), was.store.key()},
			{"its profile, leave or backOff", u.at, u.profileName + u.changed, was.profileName + was.changed},
			{"its url", u.at, fmt.Sprint(u.base), fmt.Sprint(was.base)},
			{"the list of its hosts", u.hostsAt, fmt.Sprint(u.hosts), fmt.Sprint(was.hosts)},
			{settingsText, u.at, u.settingsKey(), was.settingsKey()},
		} {
			if one.now != one.was {
				errs = append(errs, restart(one.at, one.what, "the previous setting stays in effect"))
			}
		}
	}
	return errs
}

// Close stops following the file, closes all pacers, and then the connections of their stores. Closing twice is harmless.
func (p *Pacers) Close() error {
	p.closed.Do(func() {
		if p.stop != nil {
			p.stop()
		}
		errs := make([]error, 0, len(p.live)+len(p.clients))
		for _, l := range p.live {
			errs = append(errs, l.pacer.Close())
		}
		for _, c := range p.clients {
			errs = append(errs, c.Close())
		}
		p.err = errors.Join(errs...)
	})
	return p.err
}
