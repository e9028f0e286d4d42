package transport_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// Trap: the inner http.Client refuses requests that a RoundTripper takes, such as those that
// httputil.ReverseProxy forwards.
func TestAServersRequestCanBeForwarded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(1, refuse(http.StatusInternalServerError)))
		client := newClient(t, newPacer(t), u)
		req := request(t.Context(), t, http.MethodGet, nil)
		req.RequestURI = "/things"
		resp, err := client.Transport.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Len(t, u.hits, 2)
		require.Equal(t, "/things", req.RequestURI)
	})
}

// A request that cannot be sent at all is not retried, costs nothing, and is never shown to a profile.
func TestARequestWithoutURL(t *testing.T) {
	t.Parallel()
	for _, retries := range []int{0, 4} {
		synctest.Test(t, func(t *testing.T) {
			u := newUpstream(ok(0, nil))
			p := newPacer(t, policies.Every(10*time.Second))
			client := newClient(t, p, u, transport.WithRetries(retries),
				transport.WithScope("tenant", func(r *http.Request) string { return r.URL.Hostname() }))
			req := request(t.Context(), t, http.MethodGet, nil)
			body := newBody("x")
			req.URL, req.Body, req.GetBody = nil, body, func() (io.ReadCloser, error) { return newBody("x"), nil }
			_, err := client.Transport.RoundTrip(req)
			var ce *pacer.ConfigError
			require.ErrorAs(t, err, &ce)
			require.EqualError(t, err, "transport: Request.URL is nil: make requests with http.NewRequestWithContext")
			require.Equal(t, int64(1), body.closed.Load())
			require.Empty(t, u.hits)
			require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)), "no slot was taken")
		})
	}
}

// The base transport may call another upstream on the way, for a token perhaps, with the request's context.
func TestACallWithinACallIsItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tokens := newUpstream(ok(0, nil))
		inner, err := transport.New(newPacer(t, policies.PerSecond(1000).Per("realm")), transport.WithBase(tokens),
			transport.WithScope("realm", func(*http.Request) string { return "r" }))
		require.NoError(t, err)
		u := newUpstream(ok(1, refuse(http.StatusTooManyRequests, "Retry-After", "3")))
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := inner.RoundTrip(request(req.Context(), t, http.MethodGet, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return u.RoundTrip(req)
		})
		client := newClient(t, newPacer(t, policies.PerSecond(10).Per("tenant")), base,
			transport.WithScope("tenant", func(*http.Request) string { return "a" }))
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, []time.Duration{0, 3 * time.Second}, u.hits)
		require.Len(t, tokens.hits, 2)
	})
}

// The base transport gets the request that it was given, and resp.Request is that request.
func TestTheBaseGetsTheRequestAsItIs(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]bool{"without a body": false, "with a body": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				req := request(t.Context(), t, http.MethodPut, nil)
				if body {
					req = request(t.Context(), t, http.MethodPut, strings.NewReader("payload"))
				}
				n := 0
				base := roundTripper(func(got *http.Request) (*http.Response, error) {
					n++
					require.Equal(t, req.Context(), got.Context())
					require.Equal(t, req.ContentLength, got.ContentLength)
					require.Equal(t, req.GetBody == nil, got.GetBody == nil, "for connections that turn out to be dead")
					require.Equal(t, req.Header, got.Header)
					if n == 1 {
						require.Same(t, req, got)
						return reply(got, http.StatusInternalServerError, ""), nil
					}
					return reply(got, http.StatusOK, ""), nil
				})
				resp, err := newClient(t, newPacer(t), base).Transport.RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.Equal(t, req.Context(), resp.Request.Context())
				require.Equal(t, 2, n)
			})
		})
	}
}

func TestWithoutRetriesThereIsOneAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(1, refuse(http.StatusTooManyRequests)))
		client := newClient(t, newPacer(t), u, transport.WithRetries(0))
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.Len(t, u.hits, 1)
		client.CloseIdleConnections()
		require.Equal(t, int64(1), u.idle.Load())
	})
}

// A caller that leaves while it waits returns its slot, and its body is closed.
func TestLeavingWhileWaitingReturnsTheSlot(t *testing.T) {
	t.Parallel()
	for _, retries := range []int{0, 4} {
		t.Run(fmt.Sprintf("%d retries", retries), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(ok(0, nil))
				p := newPacer(t, policies.Every(10*time.Second))
				client := newClient(t, p, u, transport.WithRetries(retries))
				require.NoError(t, p.Wait(t.Context()))
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(4*time.Second, cancel)
				body := newBody("x")
				req := request(ctx, t, http.MethodPut, body)
				req.GetBody = func() (io.ReadCloser, error) { return newBody("x"), nil }
				_, err := client.Do(req)
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, 4*time.Second, time.Since(u.start))
				require.Equal(t, int64(1), body.closed.Load())
				require.Empty(t, u.hits)
				require.NoError(t, p.Wait(t.Context()))
				require.Equal(t, 10*time.Second, time.Since(u.start), "capacity is as it was before")
			})
		})
	}
}

// However often a request is sent, its scopes and its cost are read once.
func TestScopesAndCostAreReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var scopes, costs atomic.Int64
		u := newUpstream(ok(3, refuse(http.StatusTooManyRequests)))
		p := newPacer(t, policies.PerSecond(1).Burst(4).Per("tenant"))
		client := newClient(t, p, u,
			transport.WithScope("tenant", func(*http.Request) string { scopes.Add(1); return "a" }),
			transport.WithCost(func(*http.Request) int64 { costs.Add(1); return 2 }))
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Len(t, u.hits, 4)
		require.GreaterOrEqual(t, u.hits[3], 4*time.Second, "each attempt pays the whole cost")
		require.Equal(t, int64(1), scopes.Load())
		require.Equal(t, int64(1), costs.Load())
	})
}

// httputil.ReverseProxy uses the transport without an http.Client above it, over real connections.
func TestUnderAReverseProxy(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if hits.Add(1) == 1 {
			w.Header().Set("Retry-After", "0.01")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	target, err := url.Parse(server.URL)
	require.NoError(t, err)
	client, err := transport.NewClient(newPacer(t))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = client.Transport
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/things", nil))
	require.Equal(t, http.StatusTemporaryRedirect, w.Code)
	require.Equal(t, "/elsewhere", w.Header().Get("Location"))
	require.Equal(t, int64(2), hits.Load())
}

// Hooks receive how long each attempt took that was answered, or failed, without the wait for its slot.
func TestHooksReceiveHowLongAnswersTook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		p, err := pacer.New(pacer.Config{
			Upstream: "test", Policies: []policies.Policy{policies.PerSecond(1)}, Jitter: pacer.NoJitter,
			Hooks: []*hooks.Set{{Answered: func(_ context.Context, a hooks.Answered) { took = append(took, a.Took) }}},
		})
		require.NoError(t, err)
		client := newClient(t, p, newUpstream(func(n int, req *http.Request) (*http.Response, error) {
			time.Sleep(time.Duration(n+1) * 10 * ms)
			switch n {
			case 0:
				return refuse(http.StatusTooManyRequests)(req)
			case 1:
				return fail(req)
			}
			return reply(req, http.StatusOK, "fine"), nil
		}))
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, p.Close())
		require.Equal(t, []time.Duration{10 * ms, 20 * ms, 30 * ms}, took)
	})
}
