package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/headway-go/headway/examples/zendesk/standin"
)

const (
	joinFor   = 2 * time.Second         // how long a copy looks for the stand-in of another
	quietFor  = 1500 * time.Millisecond // how long the others must be quiet before the stand-in goes
	askFor    = 2 * time.Second         // how long stats may take
	retryJoin = 50 * time.Millisecond
)

// errForeign means that something other than a stand-in answers at the address.
var errForeign = errors.New("something else answers")

// An upstream is the called API: this copy's stand-in, another copy's, or the real one.
type upstream struct {
	url    string // of the stand-in; "" for the real API
	server *standin.Server
	own    *standin.Standin // nil if it is another copy's
	client *http.Client     // asks for stats; it is not paced. Its transport is the base of what is
}

// open finds or starts the upstream.
func open(ctx context.Context, c *config) (*upstream, error) {
	u := &upstream{client: &http.Client{Timeout: askFor, Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: c.workers + maxTenants, // a connection for each worker and lister
		IdleConnTimeout:     time.Minute,
		ForceAttemptHTTP2:   true,
	}}}
	if c.isReal() {
		return u, nil
	}
	own, err := standin.New(standin.Config{Plan: c.plan, Peak: standin.Peak(c.limit)})
	if err != nil {
		return nil, err
	}
	if c.connect != nil {
		u.url, u.own, u.client.Transport = "http://standin", own, c.connect(own)
		return u, nil
	}
	server, err := standin.Serve(ctx, c.listen, own)
	if err == nil {
		u.url, u.server, u.own = server.URL(), server, own
		return u, nil
	}
	if !c.shared() {
		return nil, err
	}
	u.url = "http://" + c.listen
	stats, joinErr := u.join(ctx)
	switch {
	case joinErr != nil:
		return nil, fmt.Errorf("no stand-in can listen at %s, and none answers there: choose another address with -listen (%w; %w)", c.listen, err, joinErr)
	case stats.Plan != c.plan:
		return nil, fmt.Errorf("the stand-in at %s runs with -plan %s: use that, or another address with -listen", c.listen, stats.Plan)
	}
	return u, nil
}

// join waits until the stand-in of another copy answers.
func (u *upstream) join(ctx context.Context) (standin.Stats, error) {
	ctx, cancel := context.WithTimeout(ctx, joinFor)
	defer cancel()
	for {
		stats, err := u.stats(ctx)
		if err == nil {
			return stats, nil
		}
		if errors.Is(err, errForeign) || pause(ctx, retryJoin) != nil {
			return standin.Stats{}, err
		}
	}
}

// stats returns the record of the stand-in.
func (u *upstream) stats(ctx context.Context) (standin.Stats, error) {
	if u.own != nil {
		return u.own.Stats(), nil
	}
	var stats standin.Stats
	if u.url == "" {
		return stats, errors.New("the real API keeps no record")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url+standin.StatsPath, http.NoBody) //nolint:gosec // a loopback address
	if err != nil {
		return stats, err
	}
	resp, err := u.client.Do(r) //nolint:gosec // a loopback address
	if err != nil {
		return stats, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return stats, fmt.Errorf("%w: %s: %s", errForeign, r.URL, resp.Status)
	}
	const most = 64 << 20
	if err := json.NewDecoder(io.LimitReader(resp.Body, most)).Decode(&stats); err != nil {
		return stats, fmt.Errorf("%w: %s: %w", errForeign, r.URL, err)
	}
	if stats.LimitPerMinute <= 0 {
		return stats, fmt.Errorf("%w: %s", errForeign, r.URL)
	}
	return stats, nil
}

// calls returns how many calls were admitted so far, of all copies, or of this copy with the real API; false if unknown.
func (u *upstream) calls(ctx context.Context, m *meter) (int, bool) {
	if u.url == "" {
		n, _ := m.total()
		return n, true
	}
	stats, err := u.stats(ctx)
	n := 0
	for _, row := range stats.Tenants {
		n += row.Admitted
	}
	return n, err == nil
}

// close stops the stand-in, if it is this copy's, once the others are quiet.
func (u *upstream) close(ctx context.Context, shared bool) error {
	if u.server == nil {
		return nil
	}
	for shared {
		left := quietFor - time.Duration(u.own.Stats().IdleMS)*time.Millisecond
		if left <= 0 || pause(ctx, left) != nil {
			break
		}
	}
	return u.server.Close()
}

// pause sleeps, unless the context ends before.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
