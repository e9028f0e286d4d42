package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
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

func TestWhatIsRetried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		header string
		answer func(*http.Request) (*http.Response, error)
		hits   int
	}{
		"GET after 500":           {http.MethodGet, "", refuse(500), 2},
		"GET after 429":           {http.MethodGet, "", refuse(429), 2},
		"GET after 501":           {http.MethodGet, "", refuse(501), 1},
		"GET after 403":           {http.MethodGet, "", refuse(403), 1},
		"GET after an error":      {http.MethodGet, "", fail, 2},
		"PUT after 503":           {http.MethodPut, "", refuse(503), 2},
		"DELETE after an error":   {http.MethodDelete, "", fail, 2},
		"POST after 429":          {http.MethodPost, "", refuse(429, "Retry-After", "1"), 2},
		"POST after 500":          {http.MethodPost, "", refuse(500), 1},
		"POST after 503":          {http.MethodPost, "", refuse(503, "Retry-After", "1"), 1},
		"POST after an error":     {http.MethodPost, "", fail, 1},
		"PATCH after 500":         {http.MethodPatch, "", refuse(500), 1},
		"POST with a key":         {http.MethodPost, "Idempotency-Key", refuse(500), 2},
		"POST with another key":   {http.MethodPost, "X-Idempotency-Key", fail, 2},
		"a wrong certificate":     {http.MethodGet, "", failWith(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), 1},
		"a wrong scheme":          {http.MethodGet, "", failWith(errors.New("unsupported protocol scheme")), 1},
		"a store that fails":      {http.MethodGet, "", failWith(&pacer.StoreError{Op: "reserve", Err: errors.New("down")}), 1},
		"a call that is wrong":    {http.MethodGet, "", failWith(&pacer.ConfigError{Field: "Cost"}), 1},
		"a call without a scope":  {http.MethodGet, "", failWith(&pacer.LimitError{Reason: pacer.NoScope, Scope: "tenant"}), 1},
		"an error that will stay": {http.MethodGet, "", failWith(pacer.ErrClosed), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(ok(1, c.answer))
				client := newClient(t, newPacer(t, policies.PerSecond(1000)), u)
				req := request(t.Context(), t, c.method, strings.NewReader("payload"))
				if c.header != "" {
					req.Header.Set(c.header, "k")
				}
				resp, err := client.Do(req)
				if err == nil {
					require.NoError(t, resp.Body.Close())
				}
				require.Len(t, u.hits, c.hits)
				for _, b := range u.bodies {
					require.Equal(t, "payload", b, "each attempt sends the whole body")
				}
			})
		})
	}
}

func TestEveryAttemptIsPacedAndPays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(2, refuse(http.StatusTooManyRequests, "Retry-After", "12")))
		p := newPacer(t, policies.PerSecond(1))
		client := newClient(t, p, u)
		resp, err := client.Do(request(t.Context(), t, http.MethodPost, strings.NewReader("x")))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, []time.Duration{0, 12 * time.Second, 24 * time.Second}, u.hits)
		start := time.Now()
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, time.Second, time.Since(start), "the last attempt was charged, and nothing besides")
	})
}

func TestBackoffGrowsWithinItsBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(10, refuse(500)))
		client := newClient(t, newPacer(t), u, transport.WithRetries(6))
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, 500, resp.StatusCode)
		require.Len(t, u.hits, 7)
		for i, most := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 400 * ms, 400 * ms, 400 * ms} {
			d := u.hits[i+1] - u.hits[i]
			require.GreaterOrEqual(t, d, most/2)
			require.LessOrEqual(t, d, most+time.Microsecond)
		}
	})
}

// Trap: go-retryablehttp turns exhausted retries into an error, and drains the body.
func TestAFinal429IsReturnedAsItCame(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][]string{"with Retry-After": {"Retry-After", "1"}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(ok(100, refuse(http.StatusTooManyRequests, header...)))
				client := newClient(t, newPacer(t, policies.PerSecond(10)), u, transport.WithRetries(2))
				resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, "no", string(body))
				require.Len(t, u.hits, 3)
			})
		})
	}
}

// Trap: a Retry-After of 9223372037 overflows in go-retryablehttp, which then retries at once; 3600 would
// sleep for an hour.
func TestARetryAfterThatIsTooLongEndsTheRetries(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"9223372037", "3600", "99999999999999999999"} {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(ok(1, refuse(http.StatusTooManyRequests, "Retry-After", v)))
				client := newClient(t, newPacer(t, policies.PerSecond(10)), u)
				resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, "no", string(body), "the body is intact")
				require.Equal(t, []time.Duration{0}, u.hits)
				require.Zero(t, time.Since(u.start))
			})
		})
	}
}

// Trap: go-retryablehttp sleeps by itself for as long as Retry-After has it. Here the pacer waits, and MaxPause
// caps that.
func TestARetryWaitsNoLongerThanTheLongestPause(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"3600", "9223372037", "99999999999999999999"} {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(ok(1, refuse(http.StatusTooManyRequests, "Retry-After", v)))
				p, err := pacer.New(pacer.Config{Upstream: "test", MaxPause: 5 * time.Second, Jitter: pacer.NoJitter})
				require.NoError(t, err)
				resp, err := newClient(t, p, u).Do(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.Equal(t, []time.Duration{0, 5 * time.Second}, u.hits)
			})
		})
	}
}

// Trap: go-retryablehttp retries any error, even a pacer's refusal, which multiplies the waiting.
func TestARefusalIsNotRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(0, nil))
		p := newPacer(t, policies.Every(time.Hour))
		client := newClient(t, p, u)
		require.NoError(t, p.Wait(t.Context()))
		_, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.ErrorIs(t, err, pacer.ErrNotYet)
		require.NoError(t, p.Close())
		_, err = client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.ErrorIs(t, err, pacer.ErrClosed)
		require.Empty(t, u.hits)
		require.Zero(t, time.Since(u.start))
	})
}

// Trap: go-retryablehttp closes all idle connections on each final failure, even those of other tenants.
func TestIdleConnectionsStayOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(100, fail))
		client := newClient(t, newPacer(t), u)
		_, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.ErrorContains(t, err, "connection reset")
		require.Len(t, u.hits, 5)
		require.Zero(t, u.idle.Load())
		client.CloseIdleConnections()
		require.Equal(t, int64(1), u.idle.Load(), "unless the user asks for it")
	})
}

// Trap: go-retryablehttp logs to stderr by default.
func TestNothingIsLogged(t *testing.T) { //nolint:paralleltest // it replaces os.Stderr
	r, w, err := os.Pipe()
	require.NoError(t, err)
	old := os.Stderr
	os.Stderr = w
	log.SetOutput(w)
	defer log.SetOutput(old)
	defer func() { os.Stderr = old }()
	synctest.Test(t, func(t *testing.T) {
		resp, err := newClient(t, newPacer(t), newUpstream(ok(2, fail))).Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	})
	require.NoError(t, w.Close())
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Empty(t, string(bytes.TrimSpace(out)))
}

// A call that is abandoned before its next attempt gives the slot of that attempt back.
func TestAnAbandonedRetryGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(1, refuse(http.StatusTooManyRequests, "Retry-After", "10")))
		p := newPacer(t, policies.PerSecond(1))
		client := newClient(t, p, u)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		body := newBody("x")
		req := request(ctx, t, http.MethodPut, body)
		req.GetBody = func() (io.ReadCloser, error) { return newBody("x"), nil }
		_, err := client.Do(req)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 3*time.Second, time.Since(u.start))
		require.Equal(t, int64(1), body.closed.Load())
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, 10*time.Second, time.Since(u.start), "the first slot behind the pause is free")
	})
}

func TestOverARealConnection(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || string(b) != "payload" || r.ContentLength != 7 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if hits.Add(1) == 1 {
			w.Header().Set("Retry-After", "0.01")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.WriteString(w, "done")
	}))
	defer server.Close()
	client, err := transport.NewClient(newPacer(t, policies.PerSecond(1000)))
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("payload"))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "done", string(body))
	require.Equal(t, int64(2), hits.Load())
}

// If the upstream requests a wait, no back-off is added.
func TestARetryAfterReplacesTheBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(1, refuse(http.StatusTooManyRequests, "Retry-After", "0.01")))
		client := newClient(t, newPacer(t), u)
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, []time.Duration{0, 10 * ms}, u.hits)
	})
}

// A wait that the upstream requested is for the next attempt, and not for those after it.
func TestARetryAfterIsForOneAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(func(n int, req *http.Request) (*http.Response, error) {
			return [...]func(*http.Request) (*http.Response, error){
				refuse(http.StatusTooManyRequests, "Retry-After", "5"), refuse(http.StatusTooManyRequests), refuse(http.StatusOK),
			}[n](req)
		})
		resp, err := newClient(t, newPacer(t, policies.PerSecond(1000)), u).Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, 5*time.Second, u.hits[1])
		require.LessOrEqual(t, u.hits[2]-u.hits[1], 200*ms, "a back-off")
	})
}
