package transport

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/headway-go/headway/pacer"
)

// NewClient returns an http.Client whose requests are paced, and repeated if that is safe. It returns a [*pacer.ConfigError] for a nil
// pacer or a bad option.
func NewClient(p *pacer.Pacer, opts ...Option) (*http.Client, error) {
	t, err := New(p, opts...)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &retrier{t}}, nil
}

// retrier repeats requests, around a Transport.
type retrier struct{ paced *Transport }

// CloseIdleConnections lets [http.Client.CloseIdleConnections] reach the base transport.
func (r *retrier) CloseIdleConnections() {
	if c, ok := r.paced.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper].
func (r *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	once := req.Body != nil && req.Body != http.NoBody && req.GetBody == nil
	if once || r.paced.retries == 0 || r.paced.isForeign(req) {
		return r.paced.RoundTrip(req)
	}
	a := &attempt{req: req, pooled: r.paced.pool != nil}
	a.send(r.paced, req)
	if ctx := req.Context(); r.repeats(ctx, a) { // most requests are not, and need no loop
		return r.loop(ctx, a)
	}
	return a.resp, a.err
}

// loop has go-retryablehttp repeat a request after its first attempt. The library gets a stub in place of each request and response: the
// body of the caller's request is not read into memory, redirects and errors reach the caller unchanged, and the pacer does the waiting.
// The library decides when to check, to drain and to stop.
func (r *retrier) loop(ctx context.Context, a *attempt) (*http.Response, error) {
	defer a.abandon(ctx)
	client := &retryablehttp.Client{
		HTTPClient: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			if a.next != nil { // without a slot this is the first time, and the attempt was made
				a.repeat(r.paced)
			}
			return a.stub(), nil
		})},
		RetryMax:   r.paced.retries,
		CheckRetry: func(context.Context, *http.Response, error) (bool, error) { return r.reserve(ctx, a), nil },
		Backoff:    func(time.Duration, time.Duration, int, *http.Response) time.Duration { return 0 },
	}
	// No call of a stub fails: the caller's context ends the wait of the next attempt.
	_, _ = client.Do(&retryablehttp.Request{Request: &http.Request{URL: new(url.URL)}})
	return a.resp, a.err
}

// roundTripper is a function as an [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// reserve decides whether a request is repeated, and if so reserves the slot of the next attempt, after the wait that the upstream
// requested, or else the back-off. Without a slot in time, the last outcome is the result.
func (r *retrier) reserve(ctx context.Context, a *attempt) bool {
	if !r.repeats(ctx, a) {
		return false
	}
	wait := min(a.wait, r.paced.operator.MaxPause())
	if wait == 0 || r.paced.pool != nil { // another credential need not wait for as long as the one that was refused
		wait = r.backoff(a.number)
	}
	next, err := r.paced.reserve(ctx, append(slices.Clip(a.opts), pacer.NotBefore(wait)))
	a.next = next
	if err == nil {
		a.drainInTime()
	}
	return err == nil
}

// repeats reports whether to send a request again after its last outcome, if there is a slot. An attempt that still has its slot was not
// made, because there was no second body.
func (r *retrier) repeats(ctx context.Context, a *attempt) bool {
	return a.next == nil && a.number <= r.paced.retries && ctx.Err() == nil && a.repeatable(ctx)
}

// backoff doubles with each attempt, from the shortest to the longest, and returns a random half to whole of that.
func (r *retrier) backoff(number int) time.Duration {
	d := r.paced.minBackoff
	for range number - 1 {
		if d >= r.paced.maxBackoff/2 {
			d = r.paced.maxBackoff
			break
		}
		d *= 2
	}
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d/2+1)
}
