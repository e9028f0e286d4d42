package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/page/internal/server"
	"github.com/headway-go/headway/policies"
)

// A fake is a source that returns what a test sets.
type fake struct {
	name      string
	all       []policies.Policy
	requested atomic.Int64
	hangs     bool

	mu       sync.Mutex
	snapshot *fleet.Snapshot
	err      error
}

var errStore = errors.New("the store is on fire")

func newFake(name string) *fake {
	return &fake{name: name, snapshot: &fleet.Snapshot{Upstream: name, At: time.Unix(1_700_000_000, 0), Counted: time.Unix(1_699_999_999, 0)}}
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fake) Upstream() string            { return f.name }
func (f *fake) MaxPause() time.Duration     { return time.Hour }
func (f *fake) Policies() []policies.Policy { return f.all }

func (f *fake) Snapshot(ctx context.Context, _ ...pacer.ScopeOption) (*fleet.Snapshot, error) {
	f.requested.Add(1)
	if f.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot, f.err
}

func (f *fake) Pause(context.Context, time.Duration, []string, ...pacer.ScopeOption) error {
	return f.err
}
func (f *fake) Resume(context.Context, ...pacer.ScopeOption) error { return f.err }
func (f *fake) Reset(context.Context, ...pacer.ScopeOption) error  { return f.err }

// newHandler returns a handler for sources, which is closed with the test.
func newHandler(t *testing.T, sources ...server.Source) *server.Handler {
	t.Helper()
	h := server.New(server.Config{Sources: sources, Hosts: []string{"example.com"}})
	t.Cleanup(h.Close)
	return h
}

// get sends a request to a handler.
func get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

// A watcher is a browser with an open stream, without a network, so that time can be virtual.
type watcher struct {
	header http.Header
	leave  context.CancelFunc
	left   chan struct{} // closed when the handler has returned
	stuck  chan struct{} // nil, or what is written waits until it is closed

	mu     sync.Mutex
	status int
	body   bytes.Buffer
}

func watch(h http.Handler, target string) *watcher { return watchSlowly(h, target, nil) }

// watchSlowly is as watch, but nothing is read until stuck is closed.
func watchSlowly(h http.Handler, target string, stuck chan struct{}) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{header: make(http.Header), leave: cancel, left: make(chan struct{}), stuck: stuck}
	go func() {
		defer close(w.left)
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil).WithContext(ctx))
	}()
	return w
}

func (w *watcher) Header() http.Header { return w.header }
func (w *watcher) Flush()              {}

func (w *watcher) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

func (w *watcher) Write(p []byte) (int, error) {
	if w.stuck != nil {
		<-w.stuck
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(p)
}

// take returns what has come since its last call.
func (w *watcher) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.body.String()
	w.body.Reset()
	return s
}

// names returns the names of the events in a piece of a stream, in order; ":" for a heartbeat.
func names(t *testing.T, stream string) []string {
	t.Helper()
	var all []string
	for message := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		switch lines := strings.Split(message, "\n"); {
		case message == "":
		case strings.HasPrefix(message, ":"):
			all = append(all, ":")
		default:
			require.Len(t, lines, 2, message)
			require.True(t, strings.HasPrefix(lines[1], "data: {"), message)
			all = append(all, strings.TrimPrefix(lines[0], "event: "))
		}
	}
	return all
}

// post sends a form as a page of this origin does.
func post(h http.Handler, target, form string, header ...string) (int, string) {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	data, _ := io.ReadAll(w.Result().Body)
	return w.Code, fmt.Sprint(string(data))
}
