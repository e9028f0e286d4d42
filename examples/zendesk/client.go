package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/nukosuke/go-zendesk/zendesk"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/pacer"
	headway "github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
)

// quiet keeps go-redis from logging: errors are returned.
type quiet struct{}

// Printf implements go-redis's logger.
func (quiet) Printf(context.Context, string, ...any) {}

// newPacer returns the pacer of this run, and a function to call at the end.
func newPacer(ctx context.Context, c *config) (*pacer.Pacer, func(), error) {
	if c.file != "" {
		return pacerOf(ctx, c.file)
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
	p, err := pace(shared, limitsOf(c.limit))
	if err != nil {
		closeStore()
		return nil, nil, err
	}
	return p, func() { _ = p.Close(); closeStore() }, nil
}

// pacerOf returns a pacer with the limits of a file, which it follows, and a function to call at the end.
func pacerOf(ctx context.Context, file string) (*pacer.Pacer, func(), error) {
	all, err := headway.Open(ctx, file, nil)
	if err != nil {
		return nil, nil, err
	}
	p, err := all.Pacer("zendesk-example")
	if err != nil {
		return nil, nil, errors.Join(err, all.Close())
	}
	return p, func() { _ = all.Close() }, nil
}

// newHTTPClient returns the SDK's client: paced, or plain with a nil pacer. The meter sees every call that leaves.
func newHTTPClient(p *pacer.Pacer, m *meter, base http.RoundTripper) (*http.Client, error) {
	measured := gauge{meter: m, next: base}
	if p == nil {
		return &http.Client{Transport: around{measured}}, nil
	}
	client, err := pacedClient(p, measured)
	if err != nil {
		return nil, err
	}
	client.Transport = around{client.Transport}
	return client, nil
}

// newSDK returns Zendesk's SDK for one account. Do not use its SetHeader: it writes a map that all clients of the process share.
func newSDK(hc *http.Client, c *config, u *upstream, tenant string) (*zendesk.Client, error) {
	z, err := zendesk.NewClient(hc)
	if err != nil {
		return nil, err
	}
	if c.isReal() {
		if err := z.SetSubdomain(c.real.subdomain); err != nil {
			return nil, err
		}
		z.SetCredential(zendesk.NewAPITokenCredential(c.real.email, c.real.token))
		return z, nil
	}
	if err := z.SetEndpointURL(u.url + "/" + tenant + "/api/v2"); err != nil {
		return nil, err
	}
	z.SetCredential(zendesk.NewAPITokenCredential("sync@example.com", "example"))
	return z, nil
}
