package transport

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// peekTime bounds how long a response is held back for the start of its body. The profile does not see a later body.
const peekTime = time.Second

// peek returns the first n decoded bytes of a response's body, and puts back what it read. complete reports that they are all. The caller
// of the transport gets an error while reading at its place.
func peek(resp *http.Response, n int) (body []byte, complete bool) {
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil, true
	}
	ready := make(chan struct{})
	again := &replay{rest: resp.Body, ready: ready}
	names := codings(resp.Header)
	var start []byte
	var all bool
	go func() {
		defer close(ready)
		defer func() { again.crash = recover() }() // of a body that panics: its reader panics, as without a look ahead
		seen := &recorder{Reader: again.rest}
		if len(names) > 0 {
			start, all = decode(seen, names, n)
		} else {
			start, all, _ = head(seen, n)
		}
		again.head = seen.kept
		if !errors.Is(seen.err, io.EOF) {
			again.err = seen.err
		}
	}()
	late := time.NewTimer(peekTime)
	defer late.Stop()
	select {
	case <-ready:
	case <-late.C:
		resp.Body = again
		return nil, false
	}
	resp.Body = again
	return start, all
}

// recorder keeps what is read through it, and the final error.
type recorder struct {
	io.Reader

	kept []byte
	err  error
}

// Read implements [io.Reader].
func (r *recorder) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.Reader.Read(p)
	r.kept, r.err = append(r.kept, p[:n]...), err
	return n, err
}

// replay is a body whose start was read before, once it is ready.
type replay struct {
	rest  io.ReadCloser
	ready <-chan struct{}
	head  []byte
	err   error // of reading the rest; nil if it goes on
	crash any   // the rest panicked with it; nil if it did not
}

// Read implements [io.Reader].
func (r *replay) Read(p []byte) (int, error) {
	<-r.ready
	if r.crash != nil {
		panic(r.crash)
	}
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

// Close implements [io.Closer]. It ends a pending look ahead.
func (r *replay) Close() error { return r.rest.Close() }

// A tee is a body that shows what was read, once: at its end, at an error, or when it is closed.
type tee struct {
	io.ReadCloser

	mu   sync.Mutex // a body may be closed while it is read
	seen memory     // nil once it was shown
	done func(body []byte, complete bool)
}

// memory keeps some of the bytes written to it. It returns those, and whether they are all.
type memory interface {
	io.Writer

	show() (body []byte, all bool)
}

// Read implements [io.Reader].
func (b *tee) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	got := p[:n] // which panics if the reader lies, and must not while b is locked
	b.mu.Lock()
	if b.seen != nil {
		_, _ = b.seen.Write(got)
	}
	b.mu.Unlock()
	if err != nil {
		b.show(errors.Is(err, io.EOF))
	}
	return n, err
}

// Close implements [io.Closer].
func (b *tee) Close() error {
	defer b.show(false)
	return b.ReadCloser.Close()
}

// show shows what was read, once.
func (b *tee) show(end bool) {
	b.mu.Lock()
	seen := b.seen
	b.seen = nil
	b.mu.Unlock()
	if seen != nil {
		body, all := seen.show()
		b.done(body, end && all)
	}
}
