package transport

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/headway-go/headway/pacer"
)

// reportTimeout bounds how long a response is held back while its "slow down" is told to the store.
const reportTimeout = 5 * time.Second

// A Transport paces requests: an [http.RoundTripper] that waits until the pacer lets a call go. Make one with
// [New]. It is safe for concurrent use.
//
// It has no CloseIdleConnections on purpose: go-retryablehttp would call it on each final failure, and drop
// the connections of every tenant. Close those of the base transport yourself, if you must.
type Transport struct {
	pacer *pacer.Pacer
	*options
}

var _ http.RoundTripper = (*Transport)(nil)

// New returns a Transport over [http.DefaultTransport], or over [WithBase]. It returns a [*pacer.ConfigError]
// for a nil pacer or a bad option.
func New(p *pacer.Pacer, opts ...Option) (*Transport, error) {
	o, err := newOptions(p, opts)
	if err != nil {
		return nil, err
	}
	return &Transport{pacer: p, options: o}, nil
}

// RoundTrip implements [http.RoundTripper]. It returns the errors of [pacer.Pacer.Wait] and of the base transport.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) { return t.send(req, nil) }

// send paces a request and sends it. The attempt is what the retry layer knows of it: nil if there is none.
func (t *Transport) send(req *http.Request, a *attempt) (*http.Response, error) {
	sent := false
	defer func() {
		// Until the base transport has the request, the body is ours to close: after a refusal, and if a
		// user's function panics.
		if !sent && req.Body != nil {
			_ = req.Body.Close()
		}
	}()
	opts, err := t.wait(req, a)
	if err != nil {
		return nil, err
	}
	sent = true
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return resp, err // the charge stays: the upstream may have seen the call
	}
	if resp == nil {
		return nil, fmt.Errorf("transport: the base transport (%T) returned neither a response nor an error: mend it", t.base)
	}
	paused := t.report(req.Context(), resp, opts)
	if a != nil {
		a.paused = paused
	}
	return resp, nil
}

// wait blocks until the request may go, and returns what it told the pacer about it. A retry has its slot already.
func (t *Transport) wait(req *http.Request, a *attempt) ([]pacer.Option, error) {
	ctx := req.Context()
	if a != nil && a.next != nil {
		next := a.next
		a.next = nil
		return a.opts, next.Wait(ctx)
	}
	opts := t.describe(req)
	if a != nil {
		a.opts = opts
	}
	return opts, t.pacer.Wait(ctx, opts...)
}

// describe reads scopes and cost from a request.
func (t *Transport) describe(req *http.Request) []pacer.Option {
	if len(t.scopes) == 0 && t.cost == nil {
		return nil
	}
	opts := make([]pacer.Option, 0, len(t.scopes)+1)
	for _, s := range t.scopes {
		if v := s.value(req); v != "" {
			opts = append(opts, pacer.Scope(s.name, v))
		}
	}
	if t.cost != nil {
		opts = append(opts, pacer.Cost(t.cost(req)))
	}
	return opts
}

// report tells the pacer what the response says, and whether that is a pause which the pacer has noted. It
// must not be lost when the caller leaves, and its failure is no reason to withhold the response: the next
// caller will hear the same.
func (t *Transport) report(ctx context.Context, resp *http.Response, opts []pacer.Option) (paused bool) {
	read := false
	defer func() {
		// If the user's function panics, nobody else closes the response.
		if !read && resp.Body != nil {
			_ = resp.Body.Close()
		}
	}()
	f, ok := t.feedback(resp)
	read = true
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	return t.pacer.Report(ctx, f, opts...) == nil && f.RetryAfter > 0
}
