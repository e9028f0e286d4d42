package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

const ms = time.Millisecond

func newPacer(t testing.TB, p ...policies.Policy) *pacer.Pacer {
	t.Helper()
	pc, err := pacer.New(pacer.Config{Upstream: "test", Policies: p, Jitter: pacer.NoJitter})
	require.NoError(t, err)
	return pc
}

func newClient(t *testing.T, p *pacer.Pacer, u http.RoundTripper, opts ...transport.Option) *http.Client {
	t.Helper()
	client, err := transport.NewClient(p, append([]transport.Option{transport.WithBase(u), transport.WithBackoff(100*ms, 400*ms)}, opts...)...)
	require.NoError(t, err)
	return client
}

func request(ctx context.Context, t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://upstream.test/things?token=secret", body)
	require.NoError(t, err)
	return req
}

// reply makes a response; headers come in pairs.
func reply(req *http.Request, status int, body string, headers ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	return &http.Response{
		StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)),
	}
}

// upstream is a base transport that answers from a script and notes when it was called.
type upstream struct {
	mu     sync.Mutex
	start  time.Time
	hits   []time.Duration
	bodies []string
	answer func(n int, req *http.Request) (*http.Response, error) // n counts from 0
	idle   atomic.Int64
}

func (u *upstream) CloseIdleConnections() { u.idle.Add(1) }

func (u *upstream) RoundTrip(req *http.Request) (*http.Response, error) {
	u.mu.Lock()
	n := len(u.hits)
	u.hits = append(u.hits, time.Since(u.start))
	u.mu.Unlock()
	if req.Body != nil {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		u.mu.Lock()
		u.bodies = append(u.bodies, string(b))
		u.mu.Unlock()
	}
	return u.answer(n, req)
}

func newUpstream(answer func(n int, req *http.Request) (*http.Response, error)) *upstream {
	return &upstream{start: time.Now(), answer: answer}
}

// ok answers 200 from a call on, and before that what first returns.
func ok(until int, first func(req *http.Request) (*http.Response, error)) func(int, *http.Request) (*http.Response, error) {
	return func(n int, req *http.Request) (*http.Response, error) {
		if n < until {
			return first(req)
		}
		return reply(req, http.StatusOK, "fine"), nil
	}
}

func refuse(status int, headers ...string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) { return reply(req, status, "no", headers...), nil }
}

func fail(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset") }

func failWith(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// trackedBody knows whether it was read and closed.
type trackedBody struct {
	io.Reader

	read   atomic.Int64
	closed atomic.Int64
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	return n, err
}

func (b *trackedBody) Close() error {
	b.closed.Add(1)
	return nil
}

func newBody(s string) *trackedBody { return &trackedBody{Reader: strings.NewReader(s)} }

// replyBody knows whether a response's body was read to its end and closed.
type replyBody struct {
	*trackedBody

	size int64
}

func withBody(resp *http.Response, s string) (*http.Response, *replyBody) {
	b := &replyBody{newBody(s), int64(len(s))}
	resp.Body = b
	return resp, b
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
