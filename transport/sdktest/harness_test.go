package sdktest_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// An sdk is what these tests use of one vendor's SDK. Its functions make a client over an HTTP client and call the upstream
// at a URL.
type sdk struct {
	profile policies.Profile
	limits  []policies.Policy // all of the vendor's

	read    func(ctx context.Context, hc *http.Client, url string) (any, error) // two calls: a list, or pages
	write   func(ctx context.Context, hc *http.Client, url string) (any, error) // one call with a body
	missing func(ctx context.Context, hc *http.Client, url string) (any, error) // one call that is answered 404

	answer func(w http.ResponseWriter, r *http.Request, body string) // what the upstream answers, with 404 for what is missing
	refuse func(w http.ResponseWriter, wait string)                  // how it refuses because of a limit, for so many seconds
	// limited checks the SDK's own error for such a refusal, and that it is for a minute where the refusal has a time.
	limited func(t *testing.T, err error)

	body      string // of the write, as the upstream must get it: a part of it
	wait      time.Duration
	unrepeats bool // the vendor's refusal is not worth repeating
	flattens  bool // the SDK makes strings of errors
}

// upstream is a server that speaks for one vendor.
type upstream struct {
	*httptest.Server
	upstreamtest.Upstream

	refusal func(w http.ResponseWriter, wait string)
}

func serve(t *testing.T, s sdk) *upstream {
	t.Helper()
	u := &upstream{refusal: s.refuse}
	u.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.answer(w, r, string(body))
	})
	u.Server = httptest.NewServer(&u.Upstream)
	t.Cleanup(u.Close)
	return u
}

// refuse has the upstream refuse calls as its vendor does, for a time.
func (u *upstream) refuse(calls int, wait time.Duration) {
	u.Inject(calls, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { u.refusal(w, strconv.Itoa(int(wait.Seconds()))) }))
}

// counter is a base transport that counts what becomes of bodies.
type counter struct {
	mu                   sync.Mutex
	opened, closed, read int
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		c.count(&c.opened)
		resp.Body = &counted{ReadCloser: resp.Body, c: c}
	}
	return resp, err
}

func (c *counter) count(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

type counted struct {
	io.ReadCloser

	c      *counter
	closed sync.Once
	ended  sync.Once
}

func (b *counted) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.ended.Do(func() { b.c.count(&b.c.read) })
	}
	return n, err
}

func (b *counted) Close() error {
	b.closed.Do(func() { b.c.count(&b.c.closed) })
	return b.ReadCloser.Close()
}

func newPacer(t *testing.T, ps ...policies.Policy) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "sdk", Policies: ps})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// clients returns a plain client, one that is only paced, and one that also repeats. All share a base.
func clients(t *testing.T, s sdk, base http.RoundTripper, ps ...policies.Policy) (plain, paced, repeats *http.Client) {
	t.Helper()
	rt, err := transport.New(newPacer(t, ps...), transport.WithProfile(s.profile), transport.WithBase(base))
	require.NoError(t, err)
	repeats, err = transport.NewClient(newPacer(t, ps...), transport.WithProfile(s.profile), transport.WithBase(base))
	require.NoError(t, err)
	return &http.Client{Transport: base}, &http.Client{Transport: rt}, repeats
}
