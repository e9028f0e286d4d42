package transport_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// Trap: go-retryablehttp follows redirects inside RoundTrip, unpaced by the caller's client.
func TestRedirectsAreTheOuterClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(1, refuse(http.StatusFound, "Location", "http://upstream.test/other")))
		client := newClient(t, newPacer(t, policies.PerSecond(1)), u)
		resp, err := client.Transport.RoundTrip(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, http.StatusFound, resp.StatusCode)
		require.Len(t, u.hits, 1)

		u = newUpstream(ok(1, refuse(http.StatusFound, "Location", "http://upstream.test/other")))
		client = newClient(t, newPacer(t, policies.PerSecond(1)), u)
		seen := 0
		client.CheckRedirect = func(*http.Request, []*http.Request) error { seen++; return nil }
		resp, err = client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, 1, seen)
		require.Equal(t, []time.Duration{0, time.Second}, u.hits, "each hop is paced")
	})
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

// A redirect that the profile reads as a refusal is repeated, and the response to the last attempt is returned.
func TestARedirectThatIsARefusalIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited := policies.Profile{Read: func(r *policies.Reply) policies.Reading {
			if r.Status == http.StatusFound {
				return policies.Reading{Verdict: policies.Limited}
			}
			return policies.Reading{}
		}}
		for until := range 3 {
			u := newUpstream(ok(until, refuse(http.StatusFound, "Location", "/limited")))
			client := newClient(t, newPacer(t, policies.PerSecond(1000)), u, transport.WithProfile(limited))
			resp, err := client.Transport.RoundTrip(request(t.Context(), t, http.MethodGet, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Len(t, u.hits, until+1)
		}
	})
}
