package transport

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
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
	most  map[string]int64 // the highest cost that each policy of the stack admits at once

	places bool // some policies count calls in flight
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
	t := &Transport{pacer: p, most: make(map[string]int64), options: o}
	for _, policy := range p.Policies() {
		s := policy.Spec()
		t.most[policy.Name()] = s.Limit
		t.places = t.places || s.Algorithm == policies.Leases
	}
	return t, nil
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
	slot, err := t.wait(req, a)
	if err != nil {
		return nil, err
	}
	sent = true
	answered := false
	ctx := req.Context()
	place := t.hold(ctx, slot)
	defer func() {
		if !answered {
			place.release()
			_ = slot.Report(ctx) // nothing was said; the charge stays, because the upstream may have seen the call
		}
	}()
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	if resp == nil {
		return nil, fmt.Errorf("transport: the base transport (%T) returned neither a response nor an error: mend it", t.base)
	}
	reading := t.readSafely(req, resp)
	answered = true
	report(ctx, slot, reading)
	if a != nil {
		a.heard(reading)
	}
	if t.profile.Settle != nil && reading.Verdict == policies.Unjudged && resp.StatusCode/100 == 2 {
		t.settleLater(req, resp, slot)
	}
	place.watch(resp)
	return resp, nil
}

// wait blocks until the request may go, and returns its slot. A retry has one already.
func (t *Transport) wait(req *http.Request, a *attempt) (*pacer.Reservation, error) {
	ctx := req.Context()
	if a != nil && a.next != nil {
		next := a.next
		a.next = nil
		return next, next.Wait(ctx)
	}
	if a != nil {
		a.opts = t.describe(a.room[:0], req)
		return t.pacer.Acquire(ctx, a.opts...)
	}
	var room [fewOptions]pacer.Option // the pacer keeps no options
	return t.pacer.Acquire(ctx, t.describe(room[:0], req)...)
}

// readSafely reads a response, and closes it if the profile panics: nobody else would.
func (t *Transport) readSafely(req *http.Request, resp *http.Response) policies.Reading {
	read := false
	defer func() {
		if !read && resp.Body != nil {
			_ = resp.Body.Close()
		}
	}()
	reading := t.read(req, resp)
	read = true
	return reading
}

// report tells the pacer what a response says. It must not be lost when the caller leaves, and its failure is no reason
// to withhold the response: the next caller will hear the same.
func report(ctx context.Context, slot *pacer.Reservation, reading policies.Reading) {
	if len(reading.Feedback) == 0 {
		_ = slot.Report(ctx) // it only counts as answered: nothing is told to the store
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	_ = slot.Report(ctx, reading.Feedback...)
}

// settleLater corrects the charge when the caller has read the body to its end, where the upstream tells the cost.
func (t *Transport) settleLater(req *http.Request, resp *http.Response, slot *pacer.Reservation) {
	if resp.Body == nil || resp.Body == http.NoBody {
		return
	}
	ctx := context.WithoutCancel(req.Context())
	reply := &policies.Reply{Request: req, Status: resp.StatusCode, Header: resp.Header}
	resp.Body = &tail{ReadCloser: resp.Body, done: func(last []byte, complete bool) {
		reply.Body, reply.Complete, reply.Now = last, complete, time.Now()
		costs := t.appendCosts(nil, t.profile.Settle(reply), false)
		if len(costs) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, reportTimeout)
		defer cancel()
		_ = slot.Settle(ctx, costs...)
	}}
}
