package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

const ms = time.Millisecond

func newPacer(t testing.TB, p ...policies.Policy) *pacer.Pacer {
	t.Helper()
	pc, err := pacer.New(pacer.Config{Upstream: "test", Policies: p, Jitter: pacer.NoJitter})
	require.NoError(t, err)
	return pc
}

// upstream is a base transport that answers from a script and notes when it was called.
type upstream struct {
	mu     sync.Mutex
	start  time.Time
	hits   []time.Duration
	bodies []string
	answer func(n int, req *http.Request) (*http.Response, error) // n counts from 0
	idle   atomic.Int64
}

func newUpstream(answer func(n int, req *http.Request) (*http.Response, error)) *upstream {
	return &upstream{start: time.Now(), answer: answer}
}

func (u *upstream) CloseIdleConnections() { u.idle.Add(1) }

func (u *upstream) RoundTrip(req *http.Request) (*http.Response, error) {
	u.mu.Lock()
	n := len(u.hits)
	u.hits = append(u.hits, time.Since(u.start))
	u.mu.Unlock()
	if req.Body != nil {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		u.mu.Lock()
		u.bodies = append(u.bodies, string(b))
		u.mu.Unlock()
	}
	return u.answer(n, req)
}

// reply makes a response; headers come in pairs.
func reply(req *http.Request, status int, body string, headers ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	return &http.Response{
		StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)),
	}
}

// ok answers 200 from the n-th call on, and before that what first says.
func ok(until int, first func(req *http.Request) (*http.Response, error)) func(int, *http.Request) (*http.Response, error) {
	return func(n int, req *http.Request) (*http.Response, error) {
		if n < until {
			return first(req)
		}
		return reply(req, http.StatusOK, "fine"), nil
	}
}

// trackedBody knows whether it was read and closed.
type trackedBody struct {
	io.Reader

	read   atomic.Int64
	closed atomic.Int64
}

func newBody(s string) *trackedBody { return &trackedBody{Reader: strings.NewReader(s)} }

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	return n, err
}

func (b *trackedBody) Close() error {
	b.closed.Add(1)
	return nil
}

func request(ctx context.Context, t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://upstream.test/things?token=secret", body)
	require.NoError(t, err)
	return req
}

func TestEachRequestIsPaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(0, nil))
		rt, err := transport.New(newPacer(t, policies.PerSecond(10)), transport.WithBase(u))
		require.NoError(t, err)
		for range 4 {
			resp, err := rt.RoundTrip(request(t.Context(), t, http.MethodGet, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		require.Equal(t, []time.Duration{0, 100 * ms, 200 * ms, 300 * ms}, u.hits)
	})
}

func TestScopeAndCostComeFromTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(0, nil))
		client, err := transport.NewClient(
			newPacer(t, policies.PerSecond(1).Burst(3).Per("tenant"), policies.Every(time.Hour).Burst(2).Per("export").Optional()),
			transport.WithBase(u),
			transport.WithScope("tenant", func(r *http.Request) string { return r.Header.Get("Tenant") }),
			transport.WithScope("export", func(r *http.Request) string { return r.Header.Get("Export") }),
			transport.WithCost(func(r *http.Request) int64 { return int64(len(r.Header.Get("Points"))) }),
		)
		require.NoError(t, err)
		send := func(tenant, points, export string) error {
			req := request(t.Context(), t, http.MethodGet, nil)
			req.Header.Set("Tenant", tenant)
			req.Header.Set("Points", points)
			req.Header.Set("Export", export)
			resp, err := client.Do(req)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			return err
		}
		require.NoError(t, send("a", "ppp", ""))
		require.NoError(t, send("b", "ppp", ""))
		require.NoError(t, send("a", "pp", "x"))
		require.Equal(t, []time.Duration{0, 0, 2 * time.Second}, u.hits)

		err = send("a", "pppp", "")
		require.ErrorIs(t, err, pacer.ErrNever)
		var ue *url.Error
		require.ErrorAs(t, err, &ue)
		require.NotErrorAs(t, ue.Err, new(*url.Error), "wrapped once")
		require.ErrorIs(t, send("a", "p", "x"), pacer.ErrNotYet)
		require.ErrorIs(t, send("", "p", ""), pacer.ErrRefused)
		var ce *pacer.ConfigError
		require.ErrorAs(t, send("a", "", ""), &ce, "a cost of 0")
		require.Len(t, u.hits, 3, "refusals are not retried and reach nobody")
	})
}

// The contract of http.RoundTripper: the request is not changed, its body is closed on every path.
func TestTheContractOfRoundTripper(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		policy policies.Policy
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		answer func(int, *http.Request) (*http.Response, error)
		panics bool
		want   error
		hits   int
	}{
		"sent":     {policy: policies.PerSecond(1), answer: ok(0, nil), hits: 1},
		"refused":  {policy: policies.PerSecond(1).Per("nobody"), answer: ok(0, nil), want: pacer.ErrRefused},
		"deadline": {policy: policies.PerSecond(1), answer: ok(0, nil), want: context.DeadlineExceeded, ctx: func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 0) }},
		"canceled": {policy: policies.PerSecond(1), answer: ok(0, nil), want: context.Canceled, ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}},
		"base fails": {policy: policies.PerSecond(1), answer: func(int, *http.Request) (*http.Response, error) { return nil, boom }, want: boom, hits: 1},
		"panic":      {policy: policies.PerSecond(1), answer: ok(0, nil), panics: true},
	} {
		for _, retries := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					u := newUpstream(c.answer)
					opts := []transport.Option{transport.WithBase(u)}
					if c.panics {
						opts = append(opts, transport.WithScope("x", func(*http.Request) string { panic("user code") }))
					}
					p := newPacer(t, c.policy)
					var rt http.RoundTripper
					var err error
					rt, err = transport.New(p, opts...)
					if retries {
						var client *http.Client
						client, err = transport.NewClient(p, opts...)
						rt = client.Transport
					}
					require.NoError(t, err)
					body := newBody("payload")
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if c.ctx != nil {
						ctx, cancel = c.ctx(ctx)
					}
					defer cancel()
					req := request(ctx, t, http.MethodPost, body)
					req.ContentLength = 7
					req.GetBody = func() (io.ReadCloser, error) { return newBody("payload"), nil }
					before := *req
					headers := req.Header.Clone()
					resp, err := func() (resp *http.Response, err error) {
						defer func() {
							if c.panics {
								require.Equal(t, "user code", recover())
							}
						}()
						return rt.RoundTrip(req)
					}()
					if c.want != nil {
						require.ErrorIs(t, err, c.want)
						require.Nil(t, resp)
					} else if !c.panics {
						require.NoError(t, err)
						require.NoError(t, resp.Body.Close())
						require.Equal(t, []string{"payload"}, u.bodies)
					}
					require.Len(t, u.hits, c.hits)
					require.Equal(t, int64(1), body.closed.Load(), "closed once")
					require.Equal(t, headers, req.Header)
					require.Same(t, before.URL, req.URL)
					require.Equal(t, before.Body, req.Body)
					require.Equal(t, before.ContentLength, req.ContentLength)
					require.Equal(t, before.Context(), req.Context())
				})
			})
		}
	}
}

func TestARefusedRequestGivesNothingAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(0, nil))
		client, err := transport.NewClient(newPacer(t, policies.Every(time.Hour)), transport.WithBase(u))
		require.NoError(t, err)
		resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		client.Timeout = time.Second
		_, err = client.Do(request(t.Context(), t, http.MethodGet, nil))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, pacer.ErrNotYet)
		require.Equal(t, time.Duration(0), time.Since(u.start), "at once")
		var le *pacer.LimitError
		require.ErrorAs(t, err, &le)
		require.NotContains(t, le.Error(), "secret")
	})
}

func TestA429PausesEveryoneWhoSleeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(ok(1, func(req *http.Request) (*http.Response, error) {
			time.Sleep(50 * ms)
			return reply(req, http.StatusTooManyRequests, "slow down", "Retry-After", "2"), nil
		}))
		rt, err := transport.New(newPacer(t, policies.PerSecond(10)), transport.WithBase(u))
		require.NoError(t, err)
		var wg sync.WaitGroup
		var statuses [4]int
		for i := range statuses {
			wg.Go(func() {
				resp, err := rt.RoundTrip(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				statuses[i] = resp.StatusCode
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				if resp.StatusCode == http.StatusTooManyRequests {
					require.Equal(t, "slow down", string(body), "the response comes as it is")
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, [4]int{429, 200, 200, 200}, statuses)
		require.Equal(t, []time.Duration{0, 2050 * ms, 2150 * ms, 2250 * ms}, u.hits)
	})
}

func TestAResponseThatSlowsDown(t *testing.T) {
	t.Parallel()
	date := "Fri, 31 Dec 1999 23:59:50 GMT"
	for name, c := range map[string]struct {
		status  int
		headers []string
		pause   time.Duration
	}{
		"seconds":         {429, []string{"Retry-After", "3"}, 3 * time.Second},
		"decimals":        {429, []string{"Retry-After", "2.0"}, 2 * time.Second},
		"zero":            {429, []string{"Retry-After", "0"}, 0},
		"503":             {503, []string{"Retry-After", "3"}, 3 * time.Second},
		"IMF date":        {429, []string{"Date", date, "Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"}, 9 * time.Second},
		"RFC 850 date":    {429, []string{"Date", date, "Retry-After", "Friday, 31-Dec-99 23:59:59 GMT"}, 9 * time.Second},
		"asctime date":    {429, []string{"Date", date, "Retry-After", "Fri Dec 31 23:59:59 1999"}, 9 * time.Second},
		"past date":       {429, []string{"Date", date, "Retry-After", "Fri, 31 Dec 1999 23:59:00 GMT"}, 0},
		"two fields":      {429, []string{"Retry-After", "3", "Retry-After", "5"}, 5 * time.Second},
		"capped":          {429, []string{"Retry-After", "9223372037"}, time.Hour},
		"capped, larger":  {429, []string{"Retry-After", "99999999999999999999"}, time.Hour},
		"negative":        {429, []string{"Retry-After", "-1"}, 0},
		"garbage":         {429, []string{"Retry-After", "soon"}, 0},
		"empty":           {429, []string{"Retry-After", ""}, 0},
		"none":            {429, nil, 0},
		"another status":  {500, []string{"Retry-After", "3"}, 0},
		"not an error":    {200, []string{"Retry-After", "3"}, 0},
		"redirect status": {301, []string{"Retry-After", "3"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t)
				u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
					return reply(req, c.status, "", c.headers...), nil
				})
				rt, err := transport.New(p, transport.WithBase(u))
				require.NoError(t, err)
				resp, err := rt.RoundTrip(request(t.Context(), t, http.MethodGet, nil))
				require.NoError(t, err)
				require.Equal(t, c.status, resp.StatusCode)
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				require.Equal(t, c.pause, s.PausedFor)
			})
		})
	}
}

func TestFeedbackOfOnesOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.PerSecond(1000).Burst(9).Named("all"), policies.PerSecond(1000).Per("endpoint").Named("endpoint"))
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) {
			return reply(req, http.StatusForbidden, ""), nil
		})
		rt, err := transport.New(p, transport.WithBase(u),
			transport.WithScope("endpoint", func(r *http.Request) string { return r.URL.Path }),
			transport.WithProfile(policies.Profile{Read: func(*policies.Reply) policies.Reading {
				return policies.Reading{Feedback: []policies.Feedback{{Wait: time.Minute, Policies: []string{"endpoint"}}}}
			}}))
		require.NoError(t, err)
		_, err = rt.RoundTrip(request(t.Context(), t, http.MethodGet, nil))
		require.NoError(t, err)
		require.ErrorIs(t, p.Allow(t.Context(), pacer.Scope("endpoint", "/things")), pacer.ErrNotYet)
		require.NoError(t, p.Allow(t.Context(), pacer.Scope("endpoint", "/other")))
	})
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	p := newPacer(t)
	value := func(*http.Request) string { return "" }
	for name, opt := range map[string]transport.Option{
		"nil option":       nil,
		"nil base":         transport.WithBase(nil),
		"bad scope":        transport.WithScope("a b", value),
		"nil scope":        transport.WithScope("a", nil),
		"nil cost":         transport.WithCost(nil),
		"nameless scope":   transport.WithProfile(policies.Profile{Scopes: []policies.Scope{{Value: value}}}),
		"scope of nothing": transport.WithProfile(policies.Profile{Scopes: []policies.Scope{{Name: "a"}}}),
		"negative retries": transport.WithRetries(-1),
		"many retries":     transport.WithRetries(101),
		"negative backoff": transport.WithBackoff(-1, 0),
		"odd backoff":      transport.WithBackoff(2, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ce *pacer.ConfigError
			_, err := transport.New(p, opt)
			require.ErrorAs(t, err, &ce)
			_, err = transport.NewClient(p, opt)
			require.ErrorAs(t, err, &ce)
		})
	}
	var ce *pacer.ConfigError
	_, err := transport.New(nil)
	require.ErrorAs(t, err, &ce)
	_, err = transport.NewClient(nil)
	require.ErrorAs(t, err, &ce)
	require.EqualError(t, err, "transport: Pacer is nil: make one with pacer.New")
}
