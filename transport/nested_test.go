package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
	"github.com/headway-go/headway/transport/inbound"
)

// get sends a request, and closes the body of its response.
func get(ctx context.Context, t *testing.T, c *http.Client) error {
	t.Helper()
	resp, err := c.Do(request(ctx, t, http.MethodGet, nil))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// A request that the base transport sends for another one, such as for a token, is nested if it has its context.
func TestARequestInsideAnotherOne(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		nested  func(context.Context) context.Context
		refused bool
	}{
		"as it is":        {func(ctx context.Context) context.Context { return ctx }, true},
		"sharing":         {func(ctx context.Context) context.Context { return pacer.With(ctx, pacer.Nested()) }, false},
		"without its end": {context.WithoutCancel, true},
		"another tenant":  {func(ctx context.Context) context.Context { return pacer.With(ctx, pacer.Scope("tenant", "zen")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, policies.InFlight(1).Per("tenant"), policies.PerMinute(1).Burst(10))
				start := time.Now()
				var client *http.Client
				var inner error
				u := &upstream{start: start}
				u.answer = func(n int, req *http.Request) (*http.Response, error) {
					if n == 0 {
						inner = get(one.nested(req.Context()), t, client)
					}
					return reply(req, http.StatusOK, "done"), nil
				}
				client = newClient(t, p, u)
				require.NoError(t, get(pacer.With(t.Context(), pacer.Scope("tenant", "acme")), t, client))
				require.Zero(t, time.Since(start))
				s, err := p.Status(t.Context(), pacer.Scope("tenant", "acme"))
				require.NoError(t, err)
				require.Equal(t, int64(1), s.Policies[0].Remaining)
				if one.refused {
					var nested *pacer.LimitError
					require.ErrorAs(t, inner, &nested, "and it is not repeated")
					require.Equal(t, "tenant=acme", nested.Scope)
					require.Len(t, u.hits, 1)
					require.Equal(t, int64(9), s.Policies[1].Remaining)
				} else {
					require.NoError(t, inner)
					require.Len(t, u.hits, 2)
					require.Equal(t, int64(8), s.Policies[1].Remaining)
				}
				require.NoError(t, p.Close())
			})
		})
	}
}

// A request of an SDK is nested in a call that was made by hand.
func TestARequestInsideDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.InFlight(1))
		client := newClient(t, p, &upstream{answer: func(_ int, req *http.Request) (*http.Response, error) { return reply(req, http.StatusOK, ""), nil }})
		require.NoError(t, p.Do(t.Context(), func(ctx context.Context) (policies.Reading, error) {
			var nested *pacer.LimitError
			require.ErrorAs(t, get(ctx, t, client), &nested)
			return policies.Reading{}, get(pacer.With(ctx, pacer.Nested()), t, client)
		}))
		require.NoError(t, p.Close())
	})
}

// Redirects and repetitions come after the response before them: they are not nested in it.
func TestRedirectsAndRepetitionsAreNotNested(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.InFlight(1))
		u := &upstream{answer: func(n int, req *http.Request) (*http.Response, error) {
			switch n {
			case 0:
				return reply(req, http.StatusFound, "there", "Location", "/there"), nil
			case 1:
				return reply(req, http.StatusServiceUnavailable, "soon"), nil
			}
			return reply(req, http.StatusOK, "done"), nil
		}}
		resp, err := newClient(t, p, u).Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		require.Equal(t, "done", string(body))
		require.NoError(t, get(resp.Request.Context(), t, newClient(t, p, u)), "the request of a response that is over")
		require.NoError(t, p.Close())
	})
}

// Without permits, the base transport gets the request as it is.
func TestTheRequestOfACallWithoutPermits(t *testing.T) {
	t.Parallel()
	p := newPacer(t, policies.PerSecond(10))
	req := request(t.Context(), t, http.MethodGet, nil)
	paced, err := transport.New(p, transport.WithBase(roundTripper(func(given *http.Request) (*http.Response, error) {
		require.Same(t, req, given)
		return reply(given, http.StatusOK, ""), nil
	})))
	require.NoError(t, err)
	resp, err := paced.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, p.Close())
}

// A handler of Limit that calls through the same pacer is a mistake of the program: 500.
func TestLimitInsideACall(t *testing.T) {
	t.Parallel()
	p := newPacer(t, policies.InFlight(1))
	limited, err := inbound.New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), inbound.Config{Pacer: p})
	require.NoError(t, err)
	require.NoError(t, p.Do(t.Context(), func(ctx context.Context) (policies.Reading, error) {
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
		require.Equal(t, http.StatusInternalServerError, w.Code)
		return policies.Reading{}, nil
	}))
	require.NoError(t, p.Close())
}
