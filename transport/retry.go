package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// NewClient returns an http.Client whose requests are paced, and repeated where that is safe. It returns a
// [*pacer.ConfigError] for a nil pacer or a bad option.
func NewClient(p *pacer.Pacer, opts ...Option) (*http.Client, error) {
	t, err := New(p, opts...)
	if err != nil {
		return nil, err
	}
	r := &retrier{paced: t}
	r.client = &retryablehttp.Client{
		HTTPClient: &http.Client{Transport: hop{t}},
		RetryMax:   t.retries,
		CheckRetry: r.check,
		// The next attempt has its slot: it waits there.
		Backoff:      func(time.Duration, time.Duration, int, *http.Response) time.Duration { return 0 },
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	return &http.Client{Transport: r}, nil
}

// retrier repeats requests by go-retryablehttp, around a Transport.
type retrier struct {
	paced  *Transport
	client *retryablehttp.Client
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] reach the base transport.
func (r *retrier) CloseIdleConnections() {
	if c, ok := r.paced.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper].
func (r *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	once := req.Body != nil && req.Body != http.NoBody && req.GetBody == nil
	if once || r.paced.retries == 0 {
		return r.paced.RoundTrip(req)
	}
	if req.URL == nil { // go-retryablehttp's client finds words for it
		return r.loop(req.Context(), &attempt{req: req})
	}
	// Most requests are not repeated, and need not pay for what could do that.
	a := &attempt{req: req, number: 1}
	resp, err := r.paced.send(req, a)
	if !r.repeats(req.Context(), a, resp, err) {
		if err != nil {
			return nil, err
		}
		return resp, nil
	}
	a.first = &outcome{resp, err}
	return r.loop(req.Context(), a)
}

// loop hands a request to go-retryablehttp, which begins with the outcome of the first attempt, if that is known.
func (r *retrier) loop(ctx context.Context, a *attempt) (*http.Response, error) {
	ctx = context.WithValue(ctx, attemptKey{}, a)
	defer func() { a.abandon(ctx) }()
	resp, err := r.client.Do(&retryablehttp.Request{Request: a.stub(ctx)})
	// The inner http.Client has wrapped the error, and the outer one will do so again.
	if wrapped, ok := err.(*url.Error); ok { //nolint:errorlint // only the outermost layer is to go
		err = wrapped.Err
	}
	if err != nil {
		return nil, err
	}
	if a.redirect != nil {
		resp = a.redirect
	}
	return resp, nil
}

// check decides whether a request is repeated, and if so reserves the slot of the next attempt. It never
// returns an error: that would hide the response.
func (r *retrier) check(ctx context.Context, resp *http.Response, err error) (bool, error) {
	a := attemptOf(ctx)
	if !r.repeats(ctx, a, resp, err) {
		return false, nil
	}
	wait := min(a.wait, r.paced.pacer.MaxPause())
	if err != nil || wait == 0 {
		wait = r.backoff(a.number)
	}
	opts := append(slices.Clip(a.opts), pacer.NotBefore(wait))
	// No slot in time: what came last is the answer.
	next, refusal := r.paced.pacer.Reserve(ctx, opts...)
	a.next = next
	return refusal == nil, nil
}

// repeats reports whether a request is to be sent again after this outcome, if there is a slot for it.
func (r *retrier) repeats(ctx context.Context, a *attempt, resp *http.Response, err error) bool {
	return a.made() && ctx.Err() == nil && a.number <= r.paced.retries && repeatable(ctx, a, resp, err)
}

// backoff doubles with each attempt, from the shortest to the longest, and takes a random half to whole of that.
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

// repeatable reports whether a request may be sent again after this outcome.
func repeatable(ctx context.Context, a *attempt, resp *http.Response, err error) bool {
	if err != nil {
		if refused(err) || !idempotent(a.req) {
			return false
		}
		// It knows the errors that do not go away: bad schemes, certificates, too many redirects.
		again, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, err)
		return again
	}
	switch {
	case a.verdict != policies.Unjudged:
		return a.verdict == policies.Limited
	case resp.StatusCode == http.StatusTooManyRequests:
		return true // not processed
	case resp.StatusCode == http.StatusNotImplemented, resp.StatusCode < http.StatusInternalServerError:
		return false
	}
	return idempotent(a.req)
}

// refused reports whether an error is the pacer's own: the upstream was not asked.
func refused(err error) bool {
	if errors.Is(err, pacer.ErrRefused) || errors.Is(err, pacer.ErrClosed) {
		return true
	}
	_, config := errors.AsType[*pacer.ConfigError](err)
	_, store := errors.AsType[*pacer.StoreError](err)
	return config || store
}

// idempotent reports whether a request may be repeated without knowing what became of it: by its method (RFC
// 9110 section 9.2.2), or because a header says so, as for net/http's own transport.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	_, key := req.Header["Idempotency-Key"]
	_, xkey := req.Header["X-Idempotency-Key"]
	return key || xkey
}
