package transport

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/headway-go/headway/pacer"
)

// A place is what a call has as long as it is in flight: see policies.InFlight. SDKs do not always close a body, or read it
// to its end, so whatever comes first gives the place back: an error, the end of the body, its Close, or the end of the
// request's context. A body that nobody reads any more does not keep its place: its lease is not renewed, and runs out.
type place struct {
	slot     *pacer.Reservation
	forget   func() bool  // stops waiting for the end of the context
	answered atomic.Bool  // there is a body
	reading  atomic.Int32 // reads under way
	read     atomic.Bool  // there were some since that was last asked
}

// hold takes care of a call's place. It returns nil if no policy counts calls in flight.
func (t *Transport) hold(ctx context.Context, slot *pacer.Reservation) *place {
	if !t.places {
		return nil
	}
	p := &place{slot: slot}
	slot.WhileAlive(p.alive)
	p.forget = context.AfterFunc(ctx, slot.Release)
	return p
}

// alive reports whether the call is still in flight, as far as can be seen.
func (p *place) alive() bool {
	return !p.answered.Load() || p.reading.Load() > 0 || p.read.Swap(false)
}

// release gives the place back. It may be called often, and of no place.
func (p *place) release() {
	if p == nil {
		return
	}
	p.forget()
	p.slot.Release()
}

// watch makes a response give the place back when it is over.
func (p *place) watch(resp *http.Response) {
	if p == nil {
		return
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		p.release()
		return
	}
	p.read.Store(true)
	p.answered.Store(true)
	b := &placeBody{resp.Body, p}
	if w, ok := resp.Body.(io.Writer); ok { // of a protocol switch
		resp.Body = &placeWriter{b, w}
	} else {
		resp.Body = b
	}
}

// placeBody is the body of a call that is in flight.
type placeBody struct {
	io.ReadCloser

	place *place
}

// Read implements [io.Reader].
func (b *placeBody) Read(p []byte) (int, error) {
	b.place.reading.Add(1)
	n, err := b.ReadCloser.Read(p)
	b.place.read.Store(true)
	b.place.reading.Add(-1)
	if err != nil {
		b.place.release()
	}
	return n, err
}

// Close implements [io.Closer].
func (b *placeBody) Close() error {
	err := b.ReadCloser.Close()
	b.place.release()
	return err
}

// placeWriter is a placeBody of a body that can be written to.
type placeWriter struct {
	*placeBody
	io.Writer
}
