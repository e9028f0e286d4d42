package transport_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
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

// A following base redirects from one address to the next, and answers at the last one. It notes which requests had the credential.
type following struct {
	chain    []string
	answer   func(req *http.Request) (*http.Response, error) // nil: 200
	hits     int
	signed   []string
	unlinked bool // a layer above the transport takes the requests out of the responses
}

func (f *following) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasPrefix(req.Header.Get("Authorization"), "Bearer ") {
		f.signed = append(f.signed, req.URL.String())
	}
	if f.hits++; f.hits < len(f.chain) {
		return reply(req, http.StatusTemporaryRedirect, "", "Location", f.chain[f.hits]), nil
	}
	if f.answer != nil {
		return f.answer(req)
	}
	return reply(req, http.StatusOK, ""), nil
}

// get follows the chain with a client whose requests have a credential.
func (f *following) get(t *testing.T, client *http.Client) (status int) {
	t.Helper()
	if f.unlinked {
		inner := client.Transport
		client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := inner.RoundTrip(req)
			if err == nil {
				resp.Request = nil
			}
			return resp, err
		})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.chain[0], nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	if resp.Request != nil {
		require.NotContains(t, resp.Request.Header.Get("Authorization"), "secret", "the signed copy does not leave the transport")
	}
	return resp.StatusCode
}

// A credential goes to the host of the first request, and to hosts that are named. Where it goes, the call is paced and charged.
func TestACredentialIsTheAPIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		chain    string
		own      int // the hops of the chain that the API gets, from the first one
		last     bool
		opts     []transport.Option
		routed   []string
		unlinked bool
	}{
		"the same host":            {chain: "https://api.test/a /b https://API.test.:443/c", own: 3},
		"to https":                 {chain: "http://api.test/a https://api.test/b", own: 2},
		"to http":                  {chain: "https://api.test/a http://api.test/b", own: 1},
		"to http on its port":      {chain: "https://api.test/a http://api.test:443/b", own: 1},
		"another host":             {chain: "https://api.test/a https://evil.test/b /c", own: 1},
		"a host below":             {chain: "https://api.test/a https://x.api.test/b", own: 1},
		"another port":             {chain: "https://api.test/a https://api.test:8443/b", own: 1},
		"the host as a user":       {chain: "https://api.test/a https://api.test@evil.test/b", own: 1},
		"there and back":           {chain: "https://api.test/a https://evil.test/b https://api.test/c", own: 1, last: true},
		"a named host":             {chain: "https://api.test/a https://eu.test/b", own: 2, opts: []transport.Option{transport.WithAPIHosts("x.test", "EU.test")}},
		"a named domain":           {chain: "https://api.test/a https://eu.api.test/b", own: 2, opts: []transport.Option{transport.WithAPIHosts("*.api.test")}},
		"a named host by http":     {chain: "https://api.test/a http://eu.test/b", own: 1, opts: []transport.Option{transport.WithAPIHosts("eu.test")}},
		"a chain without requests": {chain: "https://api.test/a https://api.test/b", own: 1, unlinked: true},
		"a host of a router":       {chain: "https://api.test/a https://eu.test/b", own: 2, routed: []string{"api.test", "eu.test"}},
		"the fallback of a router": {chain: "https://api.test/a https://eu.test/b", own: 1, routed: []string{"api.test"}},
		"by http in a router":      {chain: "https://api.test/a http://eu.test/b", own: 1, routed: []string{"api.test", "eu.test"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &following{chain: strings.Fields(c.chain), unlinked: c.unlinked}
			p := newPacer(t, policies.Fixed(10, time.Hour))
			client := newClient(t, p, f, append(c.opts, transport.WithSigner(func(req *http.Request) error { return bearer(req, "a") }))...)
			if c.routed != nil {
				routes := []transport.RouterOption{transport.WithFallback(client.Transport)}
				for _, host := range c.routed {
					routes = append(routes, transport.WithHost(host, client.Transport))
				}
				r, err := transport.NewRouter(routes...)
				require.NoError(t, err)
				client.Transport = r
			}
			require.Equal(t, http.StatusOK, f.get(t, client))
			require.Equal(t, len(f.chain), f.hits)
			own := c.own
			if c.last {
				own++
			}
			require.Len(t, f.signed, own)
			s, err := p.Status(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 10-own, s.Policies[0].Remaining)
		})
	}
	_, err := transport.New(newPacer(t), transport.WithAPIHosts("https://api.test"))
	require.ErrorContains(t, err, "transport: APIHosts is")
}

// A reply of a host that is not the API's reports nothing of the API's limits and credentials, and is returned as it came.
func TestAForeignReplyIsNotTheAPIs(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"a pause":       refuse(http.StatusTooManyRequests, "Retry-After", "60"),
		"a count":       refuse(http.StatusOK, "RateLimit-Limit", "10", "RateLimit-Remaining", "0", "RateLimit-Reset", "60"),
		"no credential": refuse(http.StatusUnauthorized),
		"an error":      refuse(http.StatusServiceUnavailable, "Retry-After", "60"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, policies.Fixed(10, time.Hour).Per("key"))
				defer p.Close()
				pool, err := p.Pool([]pacer.Credential{{ID: "a"}}, "key")
				require.NoError(t, err)
				f := &following{chain: []string{"https://api.test/a", "https://other.test/b"}, answer: answer}
				client := newClient(t, p, f, transport.WithPool(pool, bearer))
				began := time.Now()
				want, err := answer(&http.Request{})
				require.NoError(t, err)
				require.Equal(t, want.StatusCode, f.get(t, client))
				require.Equal(t, 2, f.hits, "it is not repeated")
				r, err := pool.Acquire(t.Context())
				require.NoError(t, err)
				r.Release()
				require.Zero(t, time.Since(began))
				s, err := p.Status(t.Context(), pacer.Scope("key", "a"))
				require.NoError(t, err)
				require.EqualValues(t, 8, s.Policies[0].Remaining)
			})
		})
	}
}
