package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

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
		require.ErrorIs(t, err, pacer.TooCostly)
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

func TestFeedbackOfACustomProfile(t *testing.T) {
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
		require.ErrorIs(t, p.Wait(t.Context(), pacer.Scope("endpoint", "/things"), pacer.MaxWait(0)), pacer.ErrNotYet)
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("endpoint", "/other"), pacer.MaxWait(0)))
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
		"nil call options": transport.WithCallOptions(nil),
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

// A request is in the lane that the option reads from it, or else in that of its context.
func TestWithLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.PerSecond(10).Burst(10).Lane("batch", 50))
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) { return reply(req, 200, ""), nil })
		client, err := transport.NewClient(p, transport.WithBase(u), transport.WithLane(func(req *http.Request) string { return req.Header.Get("Lane") }))
		require.NoError(t, err)
		send := func(ctx context.Context, lane string) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://upstream.test/", http.NoBody)
			require.NoError(t, err)
			req.Header.Set("Lane", lane)
			resp, err := client.Do(req)
			require.NoError(t, err)
			_ = resp.Body.Close()
		}
		left := func() (whole, batch int64) {
			s, err := p.Status(t.Context(), pacer.Lane("batch"))
			require.NoError(t, err)
			return s.Policies[0].Remaining, s.Policies[1].Remaining
		}
		send(t.Context(), "batch")
		send(t.Context(), "")
		send(pacer.With(t.Context(), pacer.Lane("batch")), "")
		whole, batch := left()
		require.Equal(t, []int64{7, 3}, []int64{whole, batch})
		_, err = transport.New(p, transport.WithLane(nil))
		require.ErrorContains(t, err, "Lane is nil")
	})
}

// The function's options hold for that request, and override the profile.
func TestWithCallOptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.Fixed(10, time.Hour))
		u := newUpstream(func(_ int, req *http.Request) (*http.Response, error) { return reply(req, 200, ""), nil })
		profile := policies.Profile{Costs: func(*http.Request) []policies.Cost { return []policies.Cost{{N: 2}} }}
		client, err := transport.NewClient(p, transport.WithBase(u), transport.WithProfile(profile),
			transport.WithCallOptions(func(req *http.Request) []pacer.Option {
				if req.Header.Get("Large") == "" {
					return nil
				}
				return []pacer.Option{pacer.Cost(8), pacer.MaxWait(time.Second)}
			}))
		require.NoError(t, err)
		send := func(large string) error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream.test/", http.NoBody)
			require.NoError(t, err)
			req.Header.Set("Large", large)
			resp, err := client.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}
		require.NoError(t, send(""))
		require.NoError(t, send("yes"))
		began := time.Now()
		require.ErrorIs(t, send("yes"), pacer.ErrNotYet)
		require.Zero(t, time.Since(began), "its slot is further away than its own MaxWait")
	})
}
