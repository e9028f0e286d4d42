package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/pacer"
	headway "github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/transport"
)

// The SDK takes no context. Its HTTP client's timeout bounds its calls with their waits: if a call's slot is further away, it is refused at
// once.
const (
	readerTimeout      = 30 * time.Second
	interactiveTimeout = 2 * time.Second // somebody sits there and waits
)

// quiet keeps go-redis from logging: errors are returned.
type quiet struct{}

// Printf implements go-redis's logger.
func (quiet) Printf(context.Context, string, ...any) {}

// newPacer returns the pacer of this run, and a function to call at the end.
func newPacer(ctx context.Context, c *config, u *upstream) (*pacer.Pacer, func(), error) {
	if c.file != "" {
		return pacerOf(ctx, c.file, upstreamOf(u))
	}
	var shared store.Store // nil: this process's memory
	closeStore := func() {}
	if c.redis != "" {
		redis.SetLogger(quiet{})
		rdb := redis.NewClient(&redis.Options{Addr: c.redis, ContextTimeoutEnabled: true})
		closeStore = func() { _ = rdb.Close() }
		ctx, cancel := context.WithTimeout(ctx, askFor)
		defer cancel()
		if err := rdb.Ping(ctx).Err(); err != nil {
			closeStore()
			return nil, nil, fmt.Errorf("no Redis answers at %s: start one there, or leave -redis out (%w)", c.redis, err)
		}
		backing, err := redisstore.New(rdb)
		if err != nil {
			closeStore()
			return nil, nil, err
		}
		shared = backing
	}
	p, err := pacer.New(pacer.Config{Upstream: upstreamOf(u), Store: shared, Policies: limitsOf(u.allocation, c.reserve)})
	if err != nil {
		closeStore()
		return nil, nil, err
	}
	return p, func() { _ = p.Close(); closeStore() }, nil
}

// upstreamOf names the org. Each run of the stand-in is another one.
func upstreamOf(u *upstream) string { return "salesforce-" + u.org }

// pacerOf returns a pacer with the limits of a file, which it follows, and a function to call at the end.
func pacerOf(ctx context.Context, file, upstream string) (*pacer.Pacer, func(), error) {
	all, err := headway.Open(ctx, file, nil, func(_ string, c *pacer.Config) { c.Upstream = upstream })
	if err != nil {
		return nil, nil, err
	}
	p, err := all.Pacer("salesforce-example")
	if err != nil {
		return nil, nil, errors.Join(err, all.Close())
	}
	return p, func() { _ = all.Close() }, nil
}

// newTransport returns the transport of all clients of the SDK: paced, with repeats if that is safe. The meter sees every call that leaves.
func newTransport(p *pacer.Pacer, u *upstream, m *meter, reserve int) (http.RoundTripper, error) {
	base := gauge{meter: m, next: u.client.Transport}
	client, err := transport.NewClient(p, transport.WithProfile(profileOf(reserve)), transport.WithBase(base))
	if err != nil {
		return nil, err
	}
	return client.Transport, nil
}

// A caller gives the calls of one SDK client what the SDK cannot: a context, with the scopes that select their policies.
type caller struct {
	run    context.Context //nolint:containedctx // the SDK takes none
	tenant string          // whose data a reader reads; "" for interactive calls
	next   http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (c caller) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context()) // which ends with the timeout of the SDK's client
	stop := context.AfterFunc(c.run, cancel)       //nolint:contextcheck // and with the run
	defer stop()
	if c.tenant != "" {
		ctx = pacer.With(ctx, pacer.Scope(scopeBatch, readers))
		ctx = pacer.With(ctx, pacer.Scope(scopeTenant, c.tenant))
	}
	ctx = context.WithValue(ctx, tripKey{}, &trip{caller: cmp.Or(c.tenant, interactive), began: time.Now()})
	return c.next.RoundTrip(r.WithContext(ctx))
}
