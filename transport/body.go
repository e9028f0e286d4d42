package transport

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/headway-go/headway/policies"
)

// peek reads the first n bytes of a response's body and puts them back. All of it is there if complete. An error while
// reading is kept for the caller of the transport, who gets it where it happened.
func peek(resp *http.Response, n int) (body []byte, complete bool) {
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil, true
	}
	buf := make([]byte, n+1) // one more, to see whether that is all
	got, err := io.ReadFull(resp.Body, buf)
	again := &replay{head: buf[:got], rest: resp.Body}
	switch {
	case err == nil:
		got = n
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		complete = true
	default:
		again.err = err
	}
	body = bytes.Clone(buf[:got])           // the profile's to keep
	if w, ok := resp.Body.(io.Writer); ok { // of a protocol switch
		resp.Body = &replayWriter{again, w}
	} else {
		resp.Body = again
	}
	return body, complete
}

// replay is a body whose start was read already.
type replay struct {
	head []byte
	rest io.ReadCloser
	err  error // of reading the rest; nil if it goes on
}

// Read implements [io.Reader].
func (r *replay) Read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.rest.Read(p)
}

// Close implements [io.Closer].
func (r *replay) Close() error { return r.rest.Close() }

// replayWriter is a replay of a body that can be written to.
type replayWriter struct {
	*replay
	io.Writer
}

// tail is a body that remembers its last bytes, and shows them once when it has been read to its end.
type tail struct {
	io.ReadCloser

	last []byte
	cut  bool // there was more than last
	done func(last []byte, complete bool)
}

// Read implements [io.Reader].
func (b *tail) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.keep(p[:n])
	if err == io.EOF && b.done != nil {
		done := b.done
		b.done = nil
		more := max(0, len(b.last)-policies.MaxPeek)
		done(b.last[more:], more == 0 && !b.cut)
		b.last = nil
	}
	return n, err
}

// keep remembers the last bytes: MaxPeek or a little more.
func (b *tail) keep(p []byte) {
	if b.done == nil {
		return
	}
	b.last = append(b.last, p...)
	if more := len(b.last) - policies.MaxPeek; more > policies.MaxPeek {
		b.cut = true
		b.last = b.last[:copy(b.last, b.last[more:])]
	}
}
