package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// attempt is what the retry layer and the Transport below it know of one request. Only one goroutine uses it.
// It travels through go-retryablehttp and its http.Client in the context of a stub; nobody else's code ever
// sees that context, so a call that the base transport makes on the way cannot be taken for an attempt.
type attempt struct {
	req      *http.Request      // the caller's, never changed
	number   int                // of the attempts begun
	opts     []pacer.Option     // as the Transport described the request
	verdict  policies.Verdict   // on the last response
	wait     time.Duration      // what that asked for; 0 for nothing
	next     *pacer.Reservation // the slot of the next attempt; nil once that waits for it
	first    *outcome           // of the first attempt, until go-retryablehttp has seen it
	redirect *http.Response     // the last response, if it is one that an http.Client would act on

	room [fewOptions]pacer.Option // for opts
}

// outcome is what came of an attempt.
type outcome struct {
	resp *http.Response
	err  error
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// stub is the request that go-retryablehttp and its http.Client get to see. It has no body, which the one
// would read into memory and the other open again for redirects, and nothing that only a server's request
// has, which http.Client refuses.
func (a *attempt) stub(ctx context.Context) *http.Request {
	s := a.req.WithContext(ctx)
	s.Body, s.GetBody, s.ContentLength, s.RequestURI = nil, nil, 0, ""
	return s
}

// request returns what the next attempt sends, after the caller's own request: a copy with a body of its own.
func (a *attempt) request() (*http.Request, error) {
	a.number++
	again := *a.req
	if a.req.GetBody != nil && a.req.Body != nil && a.req.Body != http.NoBody {
		body, err := a.req.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
	}
	return &again, nil
}

// made reports whether the attempt that has just ended got as far as waiting for its slot. If it did not, the
// next one would not, either.
func (a *attempt) made() bool { return a.number > 0 && a.next == nil }

// heard remembers what a response said about repeating the request. The wait is the request's own even if the pacer has
// noted it for nobody else.
func (a *attempt) heard(r policies.Reading) {
	a.verdict, a.wait = r.Verdict, 0
	for i := range r.Feedback {
		a.wait = max(a.wait, r.Feedback[i].Wait)
	}
}

// abandon returns what was not used: the slot of an attempt that was not made, and the body of a request that
// was never sent.
func (a *attempt) abandon(ctx context.Context) {
	if a.next != nil {
		_ = a.next.Cancel(ctx)
	}
	if a.number == 0 && a.req.Body != nil {
		_ = a.req.Body.Close()
	}
}

// hop is the transport of go-retryablehttp's http.Client: it sends the caller's request in place of the stub.
type hop struct{ paced *Transport }

// RoundTrip implements [http.RoundTripper].
func (h hop) RoundTrip(stub *http.Request) (*http.Response, error) {
	a := attemptOf(stub.Context())
	a.redirect = nil
	resp, err := h.send(a)
	if err != nil || resp.StatusCode < http.StatusMultipleChoices || resp.StatusCode >= http.StatusBadRequest {
		return resp, err
	}
	// Redirects are the outer client's: each hop is a request of its own. The inner client is shown none, for
	// it reads the Location even if it may not follow it, and makes an error of one that it cannot read.
	a.redirect = resp
	shown := *resp
	shown.StatusCode = http.StatusOK
	return &shown, nil
}

// send sends the next attempt. The first was made already.
func (h hop) send(a *attempt) (*http.Response, error) {
	if first := a.first; first != nil {
		a.first = nil
		return first.resp, first.err
	}
	req, err := a.request()
	if err != nil {
		return nil, err
	}
	return h.paced.send(req, a)
}
