package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/serve"
)

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	dialed atomic.Int64 // how many connections
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements [net.Listener].
func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (l *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		l.dialed.Add(1)
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// A rig is a server and its upstream, all in memory: in virtual time too.
type rig struct {
	t        *testing.T
	server   *serve.Server
	proxy    *pipes
	api      *pipes
	client   *http.Client // of both, by the hosts proxy and api
	log      bytes.Buffer
	stop     func() // as by a signal
	stopped  chan error
	upstream *pipes
	document spec // that the server serves

	deaf   atomic.Bool // the upstream accepts no connections
	mu     sync.Mutex
	dialed []string        // addresses of upstreams
	seen   []*http.Request // by the upstream
}

// newRig returns a rig for upstreams, which are the fields of headway.yaml below "upstreams".
func newRig(t *testing.T, upstreams string, h http.HandlerFunc, change ...func(*serve.Config)) *rig {
	t.Helper()
	r := &rig{t: t, proxy: newPipes(), api: newPipes(), upstream: newPipes(), stopped: make(chan error, 1)}
	if h == nil {
		h = func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.WriteString(w, "hello "+req.URL.RequestURI())
		}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	upstream := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, req)
		r.mu.Unlock()
		h(w, req)
	})}
	go func() { _ = upstream.Serve(r.upstream) }()
	base := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		r.mu.Lock()
		r.dialed = append(r.dialed, address)
		r.mu.Unlock()
		if r.deaf.Load() {
			return nil, errors.New("the upstream does not accept connections")
		}
		return r.upstream.dial(ctx, network, address)
	}}
	f, err := config.Parse("headway.yaml", []byte("upstreams:\n"+upstreams))
	require.NoError(t, err)
	c := serve.Config{File: f, Base: base, Logger: slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, one := range change {
		one(&c)
	}
	r.server, err = serve.Open(t.Context(), c)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() {
		r.stopped <- r.server.Run(ctx, serve.NewListener(r.proxy, "", 0), serve.NewListener(r.api, "", 0))
	}()
	toServer := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasSuffix(address, ":1") {
			return r.api.dial(ctx, network, address)
		}
		return r.proxy.dial(ctx, network, address)
	}}
	r.client = &http.Client{Transport: toServer, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		toServer.CloseIdleConnections()
		stop()
		if err, open := <-r.stopped; open {
			require.NoError(t, err)
			close(r.stopped)
		}
		require.NoError(t, r.server.Close())
		base.CloseIdleConnections()
		require.NoError(t, upstream.Close())
	})
	return r
}

// send makes a request to the proxy. The fields are names and values.
func (r *rig) send(method, path string, body io.Reader, fields ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://localhost"+path, body)
	require.NoError(r.t, err)
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	return r.client.Do(req)
}

// get makes a request to the proxy that is answered, and returns the status and the body.
func (r *rig) get(path string, fields ...string) (*http.Response, string) {
	r.t.Helper()
	resp, err := r.send(http.MethodGet, path, nil, fields...)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp, string(body)
}

// refused requires that a request to the proxy is answered with a problem.
func (r *rig) refused(path string, fields ...string) (*http.Response, serve.Problem) {
	r.t.Helper()
	resp, body := r.get(path, fields...)
	require.Equal(r.t, "application/problem+json", resp.Header.Get("Content-Type"), body)
	var p serve.Problem
	require.NoError(r.t, json.Unmarshal([]byte(body), &p))
	require.Equal(r.t, resp.StatusCode, p.Status)
	require.NotEmpty(r.t, p.Detail)
	return resp, p
}

// call makes a request to the API. It returns the status, and the fields of the answer.
func (r *rig) call(path, body string) (int, map[string]any) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://localhost:1"+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	var out map[string]any
	require.NoError(r.t, json.NewDecoder(resp.Body).Decode(&out))
	if r.document.Paths == nil {
		r.document = document(r)
	}
	r.document.check(r.t, path, resp.StatusCode, out)
	return resp.StatusCode, out
}

// ok is call for one that succeeds.
func (r *rig) ok(path, body string) map[string]any {
	r.t.Helper()
	status, out := r.call(path, body)
	require.Equal(r.t, http.StatusOK, status, "%v", out)
	return out
}

// read gets a path of the API.
func (r *rig) read(path string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://localhost:1"+path, http.NoBody)
	require.NoError(r.t, err)
	resp, err := r.client.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, string(body)
}

// remaining returns how many calls the first policy of an upstream admits now.
func (r *rig) remaining(upstream string, scope string) float64 {
	r.t.Helper()
	path := "/v1/status?upstream=" + upstream
	if scope != "" {
		path += "&scope=" + scope
	}
	_, body := r.read(path)
	var out struct {
		Upstreams []struct {
			Policies []struct {
				Remaining float64 `json:"remaining"`
			} `json:"policies"`
		} `json:"upstreams"`
	}
	require.NoError(r.t, json.Unmarshal([]byte(body), &out), body)
	require.NotEmpty(r.t, out.Upstreams, body)
	return out.Upstreams[0].Policies[0].Remaining
}

// last returns the last request that the upstream got.
func (r *rig) last() *http.Request {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(r.t, r.seen)
	return r.seen[len(r.seen)-1]
}

// count returns how many requests the upstream got.
func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// elapsed returns a function that returns how much virtual time has passed.
func elapsed() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// get returns what a handler answers.
func get(h http.Handler, path string) string {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return answer.Body.String()
}
