package serve

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// slowClient is how long a client may take until it sends or accepts the next part of a body.
const slowClient = 30 * time.Second

// A client is the one end of a request: it bounds how slow the client may be, and notes the status of the reply.
type client struct {
	http.ResponseWriter

	control  *http.ResponseController
	isDuplex bool // a reply may begin before the end of the body
	status   int
	unread   atomic.Bool // the body has not arrived in full
	replied  atomic.Bool // a reply has begun
	broken   atomic.Bool // nothing waits for the rest of the body
}

func newClient(w http.ResponseWriter, r *http.Request) *client {
	c := &client{ResponseWriter: w, control: http.NewResponseController(w), isDuplex: r.ProtoMajor > 1}
	c.within(0) // as it was for the end of the request before, on the same connection
	if r.Body != nil && r.Body != http.NoBody {
		c.unread.Store(true)
		r.Body = &clientBody{r.Body, c}
	}
	return c
}

// end bounds what net/http does after the handler: it writes what is left in buffers, and reads what is left of the body.
func (c *client) end() {
	c.within(slowClient)
	if c.unread.Load() && !c.broken.Load() && (c.isDuplex || c.status == 0) { // or begin has set it
		_ = c.control.SetReadDeadline(time.Now().Add(slowClient))
	}
}

// Unwrap lets a [http.ResponseController] find what the server can do.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (c *client) WriteHeader(status int) {
	if c.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		c.begin(status)
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (c *client) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.begin(http.StatusOK)
	}
	c.within(slowClient)
	defer c.within(0) // over HTTP/2, a deadline that passes later would end the stream
	return c.ResponseWriter.Write(p)
}

// FlushError is what [http.ResponseController.Flush] calls.
func (c *client) FlushError() error {
	c.within(slowClient)
	defer c.within(0)
	return c.control.Flush()
}

// within bounds how long writes may take from now on; 0 sets no bound.
func (c *client) within(d time.Duration) {
	deadline := time.Time{}
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	_ = c.control.SetWriteDeadline(deadline)
}

// begin notes that a reply begins. From then on, both directions are a stream, whose client may be idle; but if they are not, net/http
// first reads what is left of the body.
func (c *client) begin(status int) {
	c.status = status
	c.replied.Store(true)
	switch {
	case c.broken.Load():
	case c.isDuplex || !c.unread.Load():
		_ = c.control.SetReadDeadline(time.Time{})
	default:
		_ = c.control.SetReadDeadline(time.Now().Add(slowClient))
	}
}

// clientBody is the body of a request. Between two reads the client may be as slow as it likes: the request waits, or was read in full.
type clientBody struct {
	io.ReadCloser

	of *client
}

// Read implements [io.Reader].
func (b *clientBody) Read(p []byte) (int, error) {
	_ = b.of.control.SetReadDeadline(time.Now().Add(slowClient))
	if b.of.replied.Load() {
		_ = b.of.control.SetReadDeadline(time.Time{})
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.of.unread.Store(false)
	} else if err != nil {
		b.of.broken.Store(true)
		return n, err
	}
	_ = b.of.control.SetReadDeadline(time.Time{})
	return n, err
}

// counted returns a handler that counts requests by what serve returns, the upstream.
func (s *Server) counted(by string, serve func(c *client, r *http.Request) (upstream string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := w.(*client)
		if !ok { // not by a Listener
			c = newClient(w, r)
		}
		began, upstream := time.Now(), ""
		defer func() { s.metrics.served(by, upstream, c.status, time.Since(began)) }()
		upstream = serve(c, r)
	})
}
