package awspacer

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/headway-go/headway/pacer"
)

// An attempt was admitted, and holds its permits until it is over and its response has been read. The first of these ends the reading: the
// end of the body, an error, its Close, or the end of the context. If no one reads a body any more, the lease is not renewed, and the
// permits return when it runs out.
type attempt struct {
	call     *pacer.Reservation
	forget   func() bool // stops waiting for the end of the context
	sent     bool        // the request has reached the HTTP client
	streams  bool        // the response has a body
	returned atomic.Bool // the SDK has the outcome
	ended    atomic.Bool // the body was read to its end, or closed
	reading  atomic.Int32
	read     atomic.Bool // there was a read since the lease was last renewed
}

// hold returns an attempt that was admitted.
func hold(ctx context.Context, call *pacer.Reservation) *attempt {
	a := &attempt{call: call}
	call.WhileAlive(a.alive)
	a.forget = context.AfterFunc(ctx, call.Release)
	return a
}

// alive reports whether the attempt seems to go on.
func (a *attempt) alive() bool {
	return !a.returned.Load() || a.reading.Load() > 0 || a.read.Swap(false)
}

// over records that the SDK has the outcome. Its pause was reported before, so that no call gets the permits first.
func (a *attempt) over(err error) {
	a.read.Store(true)
	a.returned.Store(true)
	if err != nil || !a.streams || a.ended.Load() {
		a.release()
	}
}

// end records that the response has been read.
func (a *attempt) end() {
	a.ended.Store(true)
	if a.returned.Load() {
		a.release()
	}
}

func (a *attempt) release() {
	a.forget()
	a.call.Release()
}

// deserialize sees the response first.
func (m *pacing) deserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	a, ok := middleware.GetStackValue(ctx, attemptKey{m}).(*attempt)
	if !ok {
		return next.HandleDeserialize(ctx, in)
	}
	a.sent = true
	out, metadata, err := next.HandleDeserialize(ctx, in)
	if resp, ok := out.RawResponse.(*smithyhttp.Response); ok && resp.Response != nil && resp.Body != nil && resp.Body != http.NoBody {
		a.streams = true
		resp.Body = &body{resp.Body, a}
	}
	return out, metadata, err
}

// body is the body of an attempt's response.
type body struct {
	io.ReadCloser

	attempt *attempt
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (n int, err error) {
	b.attempt.reading.Add(1)
	over := true // the body may panic
	defer func() {
		b.attempt.read.Store(true)
		b.attempt.reading.Add(-1)
		if over {
			b.attempt.end()
		}
	}()
	n, err = b.ReadCloser.Read(p)
	over = err != nil
	return n, err
}

// Close implements [io.Closer].
func (b *body) Close() error {
	defer b.attempt.end()
	return b.ReadCloser.Close()
}
