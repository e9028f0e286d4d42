package transport_test

import (
	"context"
	"errors"
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
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// Trap: the inner http.Client opens one more body for a redirect that it is not allowed to follow, and never
// closes it.
func TestARedirectOpensNoBody(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(ok(1, refuse(status, "Location", "http://upstream.test/other")))
				client := newClient(t, newPacer(t), u)
				opened := 0
				req := request(t.Context(), t, http.MethodPut, newBody("x"))
				req.GetBody = func() (io.ReadCloser, error) { opened++; return newBody("x"), nil }
				resp, err := client.Transport.RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, status, resp.StatusCode)
				require.Zero(t, opened)
			})
		})
	}
}

// Trap: the inner http.Client makes an error of a Location that it cannot read, which would be retried.
func TestARedirectIsReturnedAsItCame(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]string{
		"no Location":  nil,
		"bad Location": {"Location", "http://[::1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(ok(9, refuse(http.StatusFound, headers...)))
				client := newClient(t, newPacer(t), u)
				resp, err := client.Transport.RoundTrip(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				require.Equal(t, http.StatusFound, resp.StatusCode)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, "no", string(body))
				require.Len(t, u.hits, 1)
			})
		})
	}
}

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
			require.NoError(t, p.Allow(t.Context()), "no slot was taken")
		})
	}
}

// The base transport may call another upstream on the way (for a token, say), with the request's context.
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

// If the pacer could not note the pause, the request that heard of it waits all the same.
func TestAPauseThatWasNotNotedIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(2, refuse(http.StatusTooManyRequests)))
		client := newClient(t, newPacer(t), u, transport.WithProfile(policies.Profile{Read: func(r *policies.Reply) policies.Reading {
			if r.Status != http.StatusTooManyRequests {
				return policies.Reading{}
			}
			return policies.Reading{Feedback: []policies.Feedback{{Wait: time.Second, Policies: []string{"unknown"}}}}
		}}))
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, u.hits)
	})
}

func TestIdleConnectionsCanBeClosedWithoutRetries(t *testing.T) {
	t.Parallel()
	u := newUpstream(ok(0, nil))
	client := newClient(t, newPacer(t), u, transport.WithRetries(0))
	client.CloseIdleConnections()
	require.Equal(t, int64(1), u.idle.Load())
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
	})
}

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

// Trap: a response that is not returned must be drained and closed, one that is returned must be neither.
func TestOnlyResponsesThatAreRetriedAreDrained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bodies []*replyBody
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			resp, b := withBody(reply(req, http.StatusTooManyRequests, ""), "slow down")
			bodies = append(bodies, b)
			return resp, nil
		})
		resp, err := newClient(t, newPacer(t), u, transport.WithRetries(2)).Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Len(t, bodies, 3)
		for _, b := range bodies[:2] {
			require.Equal(t, b.size, b.read.Load())
			require.Equal(t, int64(1), b.closed.Load())
		}
		last := bodies[2]
		require.Zero(t, last.read.Load())
		require.Zero(t, last.closed.Load())
		require.NoError(t, resp.Body.Close())
	})
}

// A function of the user's that panics after the call must not leak the response.
func TestAPanickingFeedbackClosesTheResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var body *replyBody
		u := newUpstream(func(_ int, req *http.Request) (resp *http.Response, err error) {
			resp, body = withBody(reply(req, http.StatusOK, ""), "fine")
			return resp, nil
		})
		client := newClient(t, newPacer(t), u, transport.WithProfile(policies.Profile{Read: func(*policies.Reply) policies.Reading { panic("user code") }}))
		require.PanicsWithValue(t, "user code", func() { _, _ = client.Do(request(t.Context(), t, http.MethodGet, nil)) })
		require.Equal(t, int64(1), body.closed.Load())
	})
}

// A function of the user's that panics harms nobody else, wherever it does: other calls go on, nothing is charged to a call
// that was not made, and the pacer can be closed.
func TestAPanicHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	fine := func(*policies.Reply) policies.Reading { return policies.Reading{} }
	for name, c := range map[string]struct {
		option  func(bad *bool) transport.Option
		charged int64
	}{
		"scope": {func(bad *bool) transport.Option {
			return transport.WithScope("tenant", func(*http.Request) string { return explode(*bad, "acme") })
		}, 1},
		"cost": {func(bad *bool) transport.Option {
			return transport.WithCost(func(*http.Request) int64 { return int64(len(explode(*bad, "1"))) })
		}, 1},
		"read": {func(bad *bool) transport.Option {
			return transport.WithProfile(policies.Profile{Read: func(*policies.Reply) policies.Reading { explode(*bad, ""); return policies.Reading{} }})
		}, 2},
		"peek": {func(bad *bool) transport.Option {
			return transport.WithProfile(policies.Profile{Read: fine, Peek: func(*http.Response) int { return len(explode(*bad, "")) }})
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bad := true
				p := newPacer(t, policies.Daily(100, time.UTC))
				client := newClient(t, p, newUpstream(ok(0, nil)), c.option(&bad))
				require.PanicsWithValue(t, "user code", func() { _, _ = client.Do(request(t.Context(), t, http.MethodGet, nil)) })
				bad = false
				resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				require.Equal(t, 100-c.charged, s.Policies[0].Remaining)
				require.NoError(t, p.Close())
			})
		})
	}
}

func explode(bad bool, otherwise string) string {
	if bad {
		panic("user code")
	}
	return otherwise
}

// A base transport that returns nothing at all is an error, not a panic in code that reads the response.
func TestABaseThatReturnsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil }) //nolint:nilnil // that is the point
		for _, retries := range []int{0, 1} {
			_, err := newClient(t, newPacer(t), base, transport.WithRetries(retries)).Do(request(t.Context(), t, http.MethodGet, nil))
			require.ErrorContains(t, err, "neither a response nor an error")
		}
	})
}

// A caller that leaves while it is in line gives its slot back, and its body is closed.
func TestLeavingTheLineGivesTheSlotBack(t *testing.T) {
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

// remoteStore fails as a store behind a network does when the context is done.
type remoteStore struct{ pacer.Store }

func (s remoteStore) Report(ctx context.Context, stack pacer.Stack, notes []pacer.Note) (pacer.Instant, int, error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	if _, ok := ctx.Deadline(); !ok {
		return 0, 0, errors.New("a store that hangs would withhold the response for ever")
	}
	return s.Store.Report(ctx, stack, notes)
}

// A caller that leaves just as the answer arrives must not take the pause with it: it is for everyone.
func TestAPauseOutlivesTheCallerThatHeardIt(t *testing.T) {
	t.Parallel()
	for _, retries := range []int{0, 4} {
		t.Run(fmt.Sprintf("%d retries", retries), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
					cancel()
					return reply(req, http.StatusTooManyRequests, "", "Retry-After", "7"), nil
				})
				p, err := pacer.New(pacer.Config{Upstream: "test", Store: remoteStore{pacer.NewMemoryStore()}})
				require.NoError(t, err)
				resp, err := newClient(t, p, u, transport.WithRetries(retries)).Do(request(ctx, t, http.MethodGet, nil))
				require.NoError(t, err)
				require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
				require.Len(t, u.hits, 1)
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				require.Equal(t, 7*time.Second, s.PausedFor)
			})
		})
	}
}

// A retry that waits for its slot is caught by a pause that somebody else hears of, as every other call is.
func TestARetryInLineHeedsALaterPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pause time.Duration
		want  error
		hits  []time.Duration
	}{
		"that it can wait for": {20 * time.Second, nil, []time.Duration{0, 22 * time.Second}},
		"that is too long":     {time.Hour, pacer.ErrNotYet, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(ok(1, refuse(http.StatusTooManyRequests, "Retry-After", "5")))
				p := newPacer(t, policies.PerSecond(1))
				body := newBody("x")
				req := request(t.Context(), t, http.MethodPut, body)
				var again *trackedBody
				req.GetBody = func() (io.ReadCloser, error) { again = newBody("x"); return again, nil }
				time.AfterFunc(2*time.Second, func() {
					require.NoError(t, p.Report(context.Background(), policies.Feedback{Wait: c.pause}))
				})
				resp, err := newClient(t, p, u).Do(req)
				require.ErrorIs(t, err, c.want)
				if c.want == nil {
					require.Equal(t, http.StatusOK, resp.StatusCode)
				}
				require.Equal(t, c.hits, u.hits)
				require.Equal(t, int64(1), body.closed.Load())
				require.Equal(t, int64(1), again.closed.Load())
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
