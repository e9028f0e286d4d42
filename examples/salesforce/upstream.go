package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/headway-go/headway/examples/salesforce/standin"
)

const (
	joinFor   = 2 * time.Second         // how long a copy looks for the stand-in of another
	quietFor  = 1500 * time.Millisecond // how long the others must be quiet before the stand-in goes
	askFor    = 2 * time.Second         // how long stats may take
	limitsFor = 30 * time.Second        // how long a real org may take to return its limits
	retryJoin = 50 * time.Millisecond
)

// Consumers of the stand-in's org, as its record names them.
const (
	ownConsumer   = "headway"
	otherConsumer = "other"
)

// exampleToken is the stand-in's token for this program.
const exampleToken = "example"

// errForeign means that something other than a stand-in answers at the address.
var errForeign = errors.New("something else answers")

// An upstream is the called org: of this copy's stand-in, of another copy's, or a real one.
type upstream struct {
	url        string
	token      string
	host       string // of the url: what the profile knows the org by
	org        string // its id at the stand-in, else its domain
	allocation int    // calls in 24 hours, by the org's report
	used       int    // of them when the program began

	server *standin.Server
	own    *standin.Standin // nil if it is another copy's, or real
	client *http.Client     // asks for stats and limits; it is not paced. Its transport is the base of what is
}

// open finds or starts the upstream, and reads its limits, which takes a call to a real org.
func open(ctx context.Context, c *config) (*upstream, error) {
	u := &upstream{token: exampleToken, client: &http.Client{Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: c.workers + 1, // a connection for each reader, and one for the interactive calls
		IdleConnTimeout:     time.Minute,
		ForceAttemptHTTP2:   true,
	}}}
	if c.isReal() {
		u.url, u.token, u.org = "https://"+c.real.domain, c.real.token, c.real.domain
	} else if err := u.openStandin(ctx, c); err != nil {
		return nil, err
	}
	u.host = hostOf(u.url)
	if err := u.askLimits(ctx); err != nil {
		return nil, errors.Join(err, u.close(ctx, false))
	}
	return u, nil
}

// hostOf returns the host of a URL, without the port.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

func (u *upstream) openStandin(ctx context.Context, c *config) error {
	own, err := standin.New(standin.Config{
		Allocation: c.allocation, Peak: peakGuard, Tokens: map[string]string{exampleToken: ownConsumer},
	})
	if err != nil {
		return err
	}
	if c.connect != nil {
		u.url, u.own, u.org, u.client.Transport = "http://standin", own, own.Stats().Org, c.connect(own)
		return nil
	}
	server, err := standin.Serve(ctx, c.listen, own)
	if err == nil {
		u.url, u.server, u.own, u.org = server.URL(), server, own, own.Stats().Org
		return nil
	}
	if !c.shared() {
		return err
	}
	u.url = "http://" + c.listen
	stats, joinErr := u.join(ctx)
	switch {
	case joinErr != nil:
		return fmt.Errorf("no stand-in can listen at %s, and none answers there: choose another address with -listen (%w; %w)", c.listen, err, joinErr)
	case stats.Allocation != c.allocation:
		return fmt.Errorf("the stand-in at %s runs with -allocation %d: use that, or another address with -listen", c.listen, stats.Allocation)
	}
	u.org = stats.Org
	return nil
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
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	var stats standin.Stats
	if err := u.get(ctx, standin.StatsPath, &stats); err != nil {
		return stats, err
	}
	if stats.Allocation <= 0 {
		return stats, fmt.Errorf("%w: %s", errForeign, u.url)
	}
	return stats, nil
}

// askLimits reads the org's allocation, and how much of that is used.
func (u *upstream) askLimits(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limitsFor)
	defer cancel()
	var limits struct {
		Daily struct {
			Max, Remaining int
		} `json:"DailyApiRequests"` //nolint:tagliatelle // Salesforce's name
	}
	if err := u.get(ctx, "/services/data/v63.0/limits", &limits); err != nil {
		return fmt.Errorf("the org does not tell its limits: the token may have ended, or its user may lack the permission View Setup (%w)", err)
	}
	u.allocation, u.used = limits.Daily.Max, limits.Daily.Max-limits.Daily.Remaining
	if u.allocation < minCalls {
		return fmt.Errorf("the org has %d calls in 24 hours: that is too few for this program, which wants %d", u.allocation, minCalls)
	}
	return nil
}

// get requests JSON.
func (u *upstream) get(ctx context.Context, path string, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url+path, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+u.token)
	resp, err := u.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	const most = 64 << 20
	body := io.LimitReader(resp.Body, most)
	if resp.StatusCode != http.StatusOK {
		message, _ := io.ReadAll(io.LimitReader(body, 300))
		return fmt.Errorf("%w: %s: %s: %s", errForeign, r.URL, resp.Status, strings.TrimSpace(string(message)))
	}
	if err := json.NewDecoder(body).Decode(v); err != nil {
		return fmt.Errorf("%w: %s: %w", errForeign, r.URL, err)
	}
	return nil
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

// spendForOthers is another consumer of the org: it spends so many calls per second, and heeds nothing.
func spendForOthers(ctx context.Context, s *standin.Standin, perSecond, calls int) {
	if s == nil || perSecond == 0 {
		return
	}
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for range calls {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.Spend(otherConsumer)
		}
	}
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
