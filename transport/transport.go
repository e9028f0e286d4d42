package transport

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

// A Transport paces requests: an [http.RoundTripper] that waits until the pacer lets a call go. Make one with [New]. It is safe for
// concurrent use.
//
// It has no CloseIdleConnections, because one tenant's http.Client would close the connections of all tenants. If you must, close those of
// the base transport yourself.
type Transport struct {
	pacer    *pacer.Pacer
	operator *fleet.Operator
	unknown  atomic.Int32 // of the first calls, how many had no credential; -1 once that is settled
	*options
}

var _ http.RoundTripper = (*Transport)(nil)

// New returns a Transport that sends requests by [http.DefaultTransport], or by the transport of [WithBase]. It returns a
// [*pacer.ConfigError] for a nil pacer or a bad option.
func New(p *pacer.Pacer, opts ...Option) (*Transport, error) {
	o, err := newOptions(p, opts)
	if err != nil {
		return nil, err
	}
	t := &Transport{pacer: p, operator: fleet.Of(p), options: o}
	endpoints := slices.ContainsFunc(t.operator.Policies(), func(one policies.Policy) bool { return slices.Contains(one.Scopes(), ScopeEndpoint) })
	if o.pool != nil && o.pool.Pacer() != p {
		return nil, bad("Pool", "another pacer's", "make it with the Pool method of the pacer that is given here")
	}
	if o.endpoint != nil && !endpoints {
		return nil, bad("Endpoint", "set", fmt.Sprintf("but no policy of upstream %q is per endpoint, so that none can be paused alone: "+
			"give one Per(transport.ScopeEndpoint), such as a rate that no endpoint reaches", t.operator.Upstream()))
	}
	return t, nil
}

// RoundTrip implements [http.RoundTripper]. It returns the errors of [pacer.Pacer.Wait] and of the base transport.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) { return t.send(req, nil) }

// send paces a request and sends it. The attempt is the retry layer's, or nil.
func (t *Transport) send(req *http.Request, a *attempt) (resp *http.Response, err error) {
	if t.isForeign(req) {
		return t.exchange(req, req)
	}
	slot, err := t.wait(req, a)
	if err != nil {
		return nil, err
	}
	ctx := req.Context()
	permit := t.hold(ctx, slot)
	sent, answered := false, false
	defer func() {
		if answered {
			return
		}
		if !sent {
			t.giveUp(req, slot)
		}
		permit.release()
		if resp != nil && resp.Body != nil { // a function of the user's panics: nobody else would close it
			defer func() { _ = resp.Body.Close() }()
		}
		_ = slot.Report(ctx) // without feedback; what was sent stays charged, because the upstream may have seen the call
	}()
	ready, err := t.prepare(req, slot)
	if err != nil {
		return nil, err
	}
	if permit != nil {
		ready = ready.WithContext(slot.Context(ctx)) // what is sent below the base transport is nested in this call
	}
	sent = true
	resp, err = t.exchange(req, ready)
	if err != nil {
		return resp, err
	}
	reading, whole := t.read(req, resp)
	report(ctx, slot, reading.Feedback)
	t.leaveRefused(ctx, resp, slot)
	if a != nil {
		a.observe(reading)
	}
	t.finish(req, resp, slot, whole)
	permit.watch(resp)
	answered = true
	return resp, nil
}

// exchange sends a request, or its prepared copy. The response is that of the original: there the next hop of a redirect finds its chain,
// and the caller no credential.
func (t *Transport) exchange(req, ready *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(ready)
	if err != nil {
		return resp, err
	}
	if resp == nil {
		return nil, fmt.Errorf("transport: the base transport (%T) returned neither a response nor an error: fix that transport", t.base)
	}
	resp.Request = req
	return resp, nil
}

// wait blocks until the request may go, and returns its slot. A retry has reserved one already. Without a slot, after a refusal or if a
// user's function panics, it closes the body, which the base transport never gets.
func (t *Transport) wait(req *http.Request, a *attempt) (slot *pacer.Reservation, err error) {
	defer func() {
		if slot == nil && req.Body != nil {
			_ = req.Body.Close()
		}
	}()
	ctx := req.Context()
	switch {
	case req.URL == nil:
		return nil, bad("Request.URL", "nil", "make requests with http.NewRequestWithContext")
	case a == nil:
		var room [fewOptions]pacer.Option // the pacer keeps no options
		return t.acquire(ctx, t.describe(room[:0], req))
	case a.next == nil:
		a.opts = t.describe(a.room[:0], req)
		return t.acquire(ctx, a.opts)
	}
	next := a.next
	a.next = nil
	if err := next.Wait(ctx); err != nil {
		return nil, err
	}
	return next, nil
}
