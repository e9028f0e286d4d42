package transport

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// attempt is a request that may be repeated, and the outcome of its last attempt. One goroutine uses it.
type attempt struct {
	req    *http.Request      // the caller's, never changed
	number int                // of the attempts made
	opts   []pacer.Option     // how the Transport described the request
	next   *pacer.Reservation // the slot of the next attempt; nil once that waits for it

	resp    *http.Response
	err     error            // without a response
	verdict policies.Verdict // on the response
	wait    time.Duration    // the longest in its feedback; 0 for none

	pooled bool // each attempt goes by a credential of its own

	drained *time.Timer // ends the draining of the response; nil if there is none

	room [fewOptions]pacer.Option // for opts
}

// drainTime bounds the draining of a response that is not returned, so that its connection can be reused. Then it is closed.
const drainTime = 100 * time.Millisecond

// drainInTime closes the response that is to be drained if that takes too long.
func (a *attempt) drainInTime() {
	if a.resp != nil && a.resp.Body != nil {
		body := a.resp.Body
		a.drained = time.AfterFunc(drainTime, func() {
			defer func() { _ = recover() }() // a body that panics when it is closed is not worth the program
			_ = body.Close()
		})
	}
}

// send sends the caller's request, or a copy, and keeps the outcome.
func (a *attempt) send(t *Transport, req *http.Request) {
	a.number++
	a.verdict, a.wait = policies.Unjudged, 0
	a.resp, a.err = t.send(req, a) //nolint:bodyclose // the caller closes it, or the next attempt has it drained
	if a.err != nil {
		a.resp = nil
	}
}

// repeat makes the next attempt: a copy of the caller's request, with a body of its own. Without one, it leaves the slot, and the error is
// the outcome.
func (a *attempt) repeat(t *Transport) {
	if a.drained != nil {
		a.drained.Stop()
	}
	again := *a.req
	if a.req.GetBody != nil && a.req.Body != nil && a.req.Body != http.NoBody {
		if again.Body, a.err = a.req.GetBody(); a.err != nil {
			a.resp = nil
			return
		}
	}
	a.send(t, &again)
}

// observe keeps what a response means for repeating the request. The request waits even if the pacer applied the wait to no limit.
func (a *attempt) observe(r policies.Reading) {
	a.verdict = r.Verdict
	for i := range r.Feedback {
		a.wait = max(a.wait, r.Feedback[i].Wait)
	}
}

// stub returns a response that go-retryablehttp takes unchanged. Its body is the real one, which is drained before the next attempt.
func (a *attempt) stub() *http.Response {
	s := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
	if a.resp != nil && a.resp.Body != nil {
		s.Body = a.resp.Body
	}
	return s
}

// abandon gives back the slot of an attempt that was not made.
func (a *attempt) abandon(ctx context.Context) {
	if a.next != nil {
		_ = a.next.Cancel(ctx)
	}
}

// repeatable reports whether the request may be sent again after its last outcome.
func (a *attempt) repeatable(ctx context.Context) bool {
	if a.err != nil {
		if refused(a.err) || !idempotent(a.req) {
			return false
		}
		// It recognises lasting errors, as http.Client wraps them: bad schemes, bad certificates.
		again, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, &url.Error{Op: a.req.Method, Err: a.err})
		return again
	}
	switch {
	case a.verdict != policies.Unjudged:
		return a.verdict == policies.Limited
	case a.resp.StatusCode == http.StatusTooManyRequests:
		return true // not processed
	case a.resp.StatusCode == http.StatusUnauthorized && a.pooled:
		return true // not processed, and there are other credentials
	case a.resp.StatusCode == http.StatusNotImplemented, a.resp.StatusCode < http.StatusInternalServerError:
		return false
	}
	return idempotent(a.req)
}

// refused reports whether an error is the pacer's own, or the signer's: the upstream was not called.
func refused(err error) bool {
	if errors.Is(err, pacer.ErrRefused) || errors.Is(err, pacer.ErrClosed) {
		return true
	}
	_, config := errors.AsType[*pacer.ConfigError](err)
	_, store := errors.AsType[*pacer.StoreError](err)
	_, sign := errors.AsType[*SignError](err)
	return config || store || sign
}

// idempotent reports whether a request is safe to repeat whatever its outcome: by its method (RFC 9110 section 9.2.2), or by a header, as
// for net/http's own transport.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	_, key := req.Header["Idempotency-Key"]
	_, xkey := req.Header["X-Idempotency-Key"]
	return key || xkey
}
