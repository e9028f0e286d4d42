package transport

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/headway-go/headway/pacer"
)

// A permit lets one call be in flight: see policies.InFlight. SDKs do not always close a body, or read it to its end, so the first of these
// returns the permit: an error, the end of the body, its Close, or the end of the request's context. If no one reads a body any more, the
// lease is not renewed, and runs out.
type permit struct {
	slot     *pacer.Reservation
	forget   func() bool  // stops waiting for the end of the context
	answered atomic.Bool  // there is a body
	reading  atomic.Int32 // reads under way
	read     atomic.Bool  // there were some since the lease was last renewed
}

// hold returns the permit of a call with a slot; nil if it has none.
func (t *Transport) hold(ctx context.Context, slot *pacer.Reservation) *permit {
	if !slot.HasPermits() {
		return nil
	}
	p := &permit{slot: slot}
	slot.WhileAlive(p.alive)
	p.forget = context.AfterFunc(ctx, slot.Release)
	return p
}

// alive reports whether the call seems to be in flight.
func (p *permit) alive() bool {
	return !p.answered.Load() || p.reading.Load() > 0 || p.read.Swap(false)
}

// release returns the permit to the pacer. Calling it again, or on nil, is harmless.
func (p *permit) release() {
	if p == nil {
		return
	}
	p.forget()
	p.slot.Release()
}

// watch makes a response return the permit when it is over.
func (p *permit) watch(resp *http.Response) {
	if p == nil {
		return
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		p.release()
		return
	}
	p.read.Store(true)
	p.answered.Store(true)
	resp.Body = instead(&permitBody{resp.Body, p}, resp.Body)
}

// permitBody is the body of a call in flight.
type permitBody struct {
	io.ReadCloser

	permit *permit
}

// Read implements [io.Reader].
func (b *permitBody) Read(p []byte) (n int, err error) {
	b.permit.reading.Add(1)
	over := true // the body may panic
	defer func() {
		b.permit.read.Store(true)
		b.permit.reading.Add(-1)
		if over {
			b.permit.release()
		}
	}()
	n, err = b.ReadCloser.Read(p)
	over = err != nil
	return n, err
}

// Close implements [io.Closer].
func (b *permitBody) Close() error {
	defer b.permit.release()
	return b.ReadCloser.Close()
}

// instead returns a body that replaces another. It can be written to if the other can, as that of a protocol switch.
func instead(body, old io.ReadCloser) io.ReadCloser {
	w, writes := old.(io.Writer)
	if !writes {
		return body
	}
	if c, closes := old.(writeCloser); closes {
		return struct {
			io.ReadCloser
			io.Writer
			writeCloser
		}{body, w, c}
	}
	return struct {
		io.ReadCloser
		io.Writer
	}{body, w}
}

// writeCloser is a connection one direction of which can be closed, such as [net.TCPConn].
type writeCloser interface{ CloseWrite() error }
