package transport_test

import (
	"errors"
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

// naming answers with its name.
func naming(name string) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		resp := reply(req, http.StatusOK, "")
		resp.Body = io.NopCloser(strings.NewReader(name))
		return resp, nil
	}
}

func TestARouterFindsTheTransportOfAHost(t *testing.T) {
	t.Parallel()
	r, err := transport.NewRouter(
		transport.WithHost("api.github.com", naming("github")),
		transport.WithHost("*.zendesk.com", naming("zendesk")),
		transport.WithHost("*.eu.Zendesk.com.", naming("zendesk eu")),
		transport.WithHost("127.0.0.1:8080", naming("port")),
		transport.WithHost("127.0.0.1", naming("local")),
		transport.WithHost("[::1]:9", naming("six")),
		transport.WithFallback(naming("fallback")),
	)
	require.NoError(t, err)
	for url, want := range map[string]string{
		"https://api.github.com/x":        "github",
		"https://API.GitHub.com.:443/x":   "github",
		"https://uploads.api.github.com/": "fallback",
		"https://acme.zendesk.com/":       "zendesk",
		"https://a.b.zendesk.com/":        "zendesk",
		"https://acme.eu.zendesk.com/":    "zendesk eu",
		"https://eu.zendesk.com/":         "zendesk",
		"https://zendesk.com/":            "fallback",
		"https://notzendesk.com/":         "fallback",
		"https://zendesk.com.evil.test/":  "fallback",
		"https://zendesk.com@evil.test/":  "fallback",
		"http://127.0.0.1:8080/":          "port",
		"http://127.0.0.1:8081/":          "local",
		"http://[::1]:9/":                 "six",
		"http://[::1]:10/":                "fallback",
		"http:///no-host":                 "fallback",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		resp, err := r.RoundTrip(req)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, want, string(got), url)
	}
}

func TestARouterRefusesOtherHosts(t *testing.T) {
	t.Parallel()
	r, err := transport.NewRouter(transport.WithHost("api.github.com", naming("github")))
	require.NoError(t, err)
	body := newBody("x")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://user:secret@other.test/?token=secret", body)
	require.NoError(t, err)
	_, err = (&http.Client{Transport: r}).Do(req)
	require.ErrorIs(t, err, pacer.ErrRefused)
	he, ok := errors.AsType[*transport.HostError](err)
	require.True(t, ok)
	require.Equal(t, "other.test", he.Host)
	require.EqualError(t, he, `transport: no route for host "other.test": add one with transport.WithHost, or let others through with transport.WithFallback`)
	require.Equal(t, int64(1), body.closed.Load())
}

func TestBadRoutes(t *testing.T) {
	t.Parallel()
	ok := naming("x")
	for name, routes := range map[string][]transport.RouterOption{
		"nil":           {nil},
		"no transport":  {transport.WithHost("a.test", nil)},
		"no fallback":   {transport.WithFallback(nil)},
		"empty":         {transport.WithHost("", ok)},
		"only a star":   {transport.WithHost("*", ok)},
		"only wildcard": {transport.WithHost("*.", ok)},
		"star inside":   {transport.WithHost("a.*.test", ok)},
		"two stars":     {transport.WithHost("*.*.test", ok)},
		"a URL":         {transport.WithHost("https://a.test", ok)},
		"a path":        {transport.WithHost("a.test/x", ok)},
		"twice":         {transport.WithHost("a.test", ok), transport.WithHost("A.test.", ok)},
	} {
		_, err := transport.NewRouter(routes...)
		var ce *pacer.ConfigError
		require.ErrorAs(t, err, &ce, name)
	}
}

// A redirect to another host is paced by its pacer, and pays there.
func TestARedirectIsPacedByItsTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hits []string
		start := time.Now()
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			hits = append(hits, req.URL.Host+" "+time.Since(start).String())
			if req.URL.Host == "one.test" {
				return reply(req, http.StatusFound, "", "Location", "https://two.test/there"), nil
			}
			return reply(req, http.StatusOK, ""), nil
		})
		paced := func(p policies.Policy) http.RoundTripper {
			client, err := transport.NewClient(newPacer(t, p), transport.WithBase(base))
			require.NoError(t, err)
			return client.Transport
		}
		r, err := transport.NewRouter(
			transport.WithHost("one.test", paced(policies.Every(time.Second))),
			transport.WithHost("two.test", paced(policies.Every(5*time.Second))),
		)
		require.NoError(t, err)
		client := &http.Client{Transport: r}
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://one.test/", nil)
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		require.Equal(t, []string{"one.test 0s", "two.test 0s", "one.test 1s", "two.test 5s"}, hits)
	})
}
