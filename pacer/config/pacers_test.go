package config_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/transport"
	"github.com/headway-go/headway/transport/upstreamtest"
)

func open(t *testing.T, text string) *config.Pacers {
	t.Helper()
	f, err := config.Parse("f", []byte(text))
	require.NoError(t, err)
	p, err := f.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func get(t *testing.T, rt http.RoundTripper, url string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := rt.RoundTrip(r)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	return err
}

// Requests go by the limits of their host's upstream, by the scopes of the vendor's profile.
func TestRouter(t *testing.T) {
	t.Parallel()
	p := open(t, `
upstreams:
  zendesk:
    maxWait: 1ms
    policies: ["account: 1 per 1h, burst 1, per account", "help-center: 1 per 1h, burst 1, per help-center, optional"]
    profile: zendesk
    hosts: "*.zendesk.com"
  crm:
    maxWait: 1ms
    policies: [1 per 1h]
    hosts: [crm.example, "crm.example:8080"]
  without: {policies: none}
`)
	client, err := p.Client(transport.WithBase(&upstreamtest.Upstream{}))
	require.NoError(t, err)
	rt := client.Transport
	for _, host := range []string{"a.zendesk.com", "b.zendesk.com", "crm.example"} {
		require.NoError(t, get(t, rt, "https://"+host+"/api/v2/tickets.json"))
	}
	for _, host := range []string{"a.zendesk.com", "b.zendesk.com", "crm.example", "crm.example:8080"} {
		require.ErrorIs(t, get(t, rt, "https://"+host+"/api/v2/tickets.json"), pacer.ErrRefused)
	}
	var unknown *transport.HostError
	require.ErrorAs(t, get(t, rt, "https://other.example/"), &unknown)

	one, err := p.Transport("without", transport.WithBase(&upstreamtest.Upstream{}))
	require.NoError(t, err)
	require.NoError(t, get(t, one, "https://other.example/"))
	_, err = p.Transport("nothing")
	require.ErrorAs(t, err, new(*pacer.ConfigError))
	_, err = p.Client(nil)
	require.ErrorAs(t, err, new(*pacer.ConfigError))
}

// The part for other programs, and how long calls back off, apply to the limits that replies report.
func TestWhatIsLeftToOthers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"leave: 50", "leave: 50%", "leave: 50\n    backOff: 1m", "backOff: 1m\n    profile: ietf\n    leave: 50%"} {
		p := open(t, "upstreams:\n  u:\n    policies: ['1000/s, burst 1000']\n    maxWait: 1ms\n    "+text)
		half := &upstreamtest.Upstream{State: func(h http.Header, _ upstreamtest.Reply) {
			h["Ratelimit-Limit"], h["Ratelimit-Remaining"], h["Ratelimit-Reset"] = []string{"100"}, []string{"50"}, []string{"60"}
		}}
		one, err := p.Transport("u", transport.WithBase(half))
		require.NoError(t, err)
		require.NoError(t, get(t, one, "https://a.example/"))
		require.ErrorIs(t, get(t, one, "https://a.example/"), pacer.ErrRefused, text)
	}
	p := open(t, "upstreams:\n  u:\n    policies: ['1000/s, burst 1000']\n    maxWait: 1ms\n    backOff: 1m")
	refusing := &upstreamtest.Upstream{}
	refusing.Inject(1, upstreamtest.Refusal(http.StatusTooManyRequests, 0))
	one, err := p.Transport("u", transport.WithBase(refusing))
	require.NoError(t, err)
	require.NoError(t, get(t, one, "https://a.example/"))
	require.ErrorIs(t, get(t, one, "https://a.example/"), pacer.ErrRefused)
}

// Hosts that no upstream has are refused, unless the file lists them as unpaced.
func TestUnpacedHosts(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	t.Cleanup(server.Close)
	for text, want := range map[string]bool{"unpaced: '*'\n": true, "unpaced: [b.example, 127.0.0.1]\n": true, "unpaced: b.example\n": false, "": false} {
		client, err := open(t, text+"upstreams: {u: {policies: none, hosts: a.example}}").Client()
		require.NoError(t, err)
		err = get(t, client.Transport, server.URL)
		require.Equal(t, want, err == nil, text)
		if !want {
			require.ErrorAs(t, err, new(*transport.HostError))
		}
	}
}

// Processes whose files name the same Redis share their limits, with the password of the environment.
func TestASharedStore(t *testing.T) { //nolint:paralleltest // it sets the environment
	server := redistest.Start(t)
	require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "headway", "on", ">hunter2", "~*", "&*", "+@all").Err())
	require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "off").Err())
	t.Setenv("HEADWAY_TEST_PASSWORD", "hunter2")
	text := "stores: {s: {redis: '" + server.Addr + "', username: headway, passwordEnv: HEADWAY_TEST_PASSWORD}}\n" +
		"upstreams: {a: {store: s, storeTimeout: 30s, maxWait: 1ms, policies: [1 per 1h]}, b: {store: s, policies: none}, c: {maxWait: 1ms, policies: [1 per 1h]}}"
	var all []*config.Pacers
	for range 2 {
		all = append(all, open(t, text))
	}
	for i, p := range all {
		for _, name := range []string{"a", "c"} {
			one, err := p.Pacer(name)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			require.NoError(t, one.Ready(ctx))
			err = one.Wait(ctx)
			cancel()
			if i == 1 && name == "a" {
				require.ErrorIs(t, err, pacer.ErrRefused)
			} else {
				require.NoError(t, err)
			}
		}
	}
	for _, p := range all {
		require.NoError(t, p.Close())
	}
}

// Open follows its file: a change that cannot hold and a mistake are reported, and the pacers stay as they are.
func TestOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "headway.yaml")
	_, err := config.Open(t.Context(), path, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	write := func(text string) {
		require.NoError(t, os.WriteFile(path+"~", []byte(text), 0o600))
		require.NoError(t, os.Rename(path+"~", path))
	}
	const text = "upstreams: {u: {policies: [5/s]}}"
	write(text)
	reports := make(chan error, 10)
	p, err := config.Open(t.Context(), path, func(err error) {
		reports <- err
		panic("a function of the user's") // which ends nothing
	})
	require.NoError(t, err)
	next := func() error {
		select {
		case err := <-reports:
			return err
		case <-time.After(30 * time.Second):
			return errors.New("nothing was reported")
		}
	}
	write(strings.Replace(text, "5/s", "many", 1))
	require.ErrorContains(t, next(), path+`:1:28: upstreams.u.policies[0]: not understood`)
	write(text)
	require.NoError(t, next(), "as it was")
	write(text + "\nunpaced: b.example")
	require.ErrorIs(t, next(), config.ErrRestart)
	require.Equal(t, []string{"u"}, p.File().Upstreams())
	write(text)
	require.NoError(t, next())
	require.NoError(t, p.Close())
	write("")
	require.Empty(t, reports, "nobody watches any more")
}

// A report that hangs holds neither changes nor Close.
func TestAReportThatHangs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "headway.yaml")
	require.NoError(t, os.WriteFile(path, []byte("upstreams: {u: {policies: [5/s]}}"), 0o600))
	release := make(chan struct{})
	defer close(release)
	p, err := config.Open(t.Context(), path, func(error) { <-release })
	require.NoError(t, err)
	for _, limit := range []string{"6/s", "7/s"} {
		text := []byte("upstreams: {u: {policies: [" + limit + "]}}")
		f, err := config.Parse(path, text)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		require.Eventually(t, func() bool { return fmt.Sprint(p.File().Policies("u")) == fmt.Sprint(f.Policies("u")) }, 30*time.Second, 10*time.Millisecond)
	}
	require.NoError(t, p.Close())
}

// The watching ends with its context as well.
func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "headway.yaml")
	require.NoError(t, os.WriteFile(path, []byte("upstreams: {u: {policies: none}}"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	p, err := config.Open(ctx, path, nil)
	require.NoError(t, err)
	cancel()
	one, err := p.Pacer("u")
	require.NoError(t, err)
	require.NoError(t, one.Wait(t.Context()), "the pacers go on")
	require.NoError(t, p.Close())
}
