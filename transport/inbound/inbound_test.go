package inbound_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
	"github.com/headway-go/headway/transport"
	"github.com/headway-go/headway/transport/inbound"
)

// noContent is a handler that answers with 204.
func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

const ms = time.Millisecond

// newPacer returns a Pacer.
func newPacer(t *testing.T, list ...policies.Policy) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "test", Policies: list})
	require.NoError(t, err)
	return p
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// limited returns the handler of New.
func limited(t *testing.T, next http.Handler, c inbound.Config) http.Handler {
	t.Helper()
	h, err := inbound.New(next, c)
	require.NoError(t, err)
	return h
}

// serve has a handler answer a request, from the client whose account a field names.
func serve(ctx context.Context, h http.Handler, account string) *http.Response {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/things", http.NoBody)
	r.Header.Set("Account", account)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// byAccount gives a request the scope of its account.
func byAccount(r *http.Request) []pacer.TryOption {
	return []pacer.TryOption{pacer.Scope("account", r.Header.Get("Account"))}
}

// A request that may not start now is refused, with a Retry-After after which it may. The reply is about that policy only.
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.PerSecond(1).Burst(2).Per("account").Named("requests"), policies.PerSecond(1000).Burst(1000).Named("all"))
		defer p.Close()
		h := limited(t, http.HandlerFunc(noContent), inbound.Config{Pacer: p, Options: byAccount})
		for range 2 {
			resp := serve(t.Context(), h, "a")
			require.Equal(t, http.StatusNoContent, resp.StatusCode)
			require.Empty(t, resp.Header)
		}
		resp := serve(t.Context(), h, "a")
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.Equal(t, "1", resp.Header.Get("Retry-After"))
		require.Equal(t, `"requests";q=2;w=2`, resp.Header.Get("Ratelimit-Policy"))
		require.Equal(t, `"requests";r=0;t=1`, resp.Header.Get("Ratelimit"))
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "Too Many Requests\n", string(body))
		require.Equal(t, http.StatusNoContent, serve(t.Context(), h, "b").StatusCode, "each account has its own")
		time.Sleep(time.Second)
		require.Equal(t, http.StatusNoContent, serve(t.Context(), h, "a").StatusCode)
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Minute + 1, Policies: []string{"all"}}))
		resp = serve(t.Context(), h, "a")
		require.Equal(t, "61", resp.Header.Get("Retry-After"))
		require.Equal(t, `"all";r=0;t=61`, resp.Header.Get("Ratelimit"))
	})
}

// Retry-After is in whole seconds, rounded up, and at least 1: a client that sleeps so long is let in, and no earlier than need be.
func TestLimitRoundsUp(t *testing.T) {
	t.Parallel()
	for every, want := range map[time.Duration]int{
		ms: 1, 999 * ms: 1, time.Second: 1, time.Second + time.Microsecond: 2, 2500 * ms: 3, 3 * time.Second: 3, 36 * time.Hour: 129_600,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPacer(t, policies.Every(every))
			defer p.Close()
			h := limited(t, http.HandlerFunc(noContent), inbound.Config{Pacer: p})
			require.Equal(t, http.StatusNoContent, serve(t.Context(), h, "").StatusCode)
			resp := serve(t.Context(), h, "")
			require.Equal(t, strconv.Itoa(want), resp.Header.Get("Retry-After"), "%v", every)
			time.Sleep(time.Duration(want) * time.Second)
			require.Equal(t, http.StatusNoContent, serve(t.Context(), h, "").StatusCode, "%v", every)
		})
	}
}

// A request has its permit until the handler returns or panics.
func TestLimitReleasesItsPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.InFlight(1).Named("running"))
		defer p.Close()
		for _, panics := range []bool{false, true} {
			inside := make(chan struct{})
			h := limited(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-inside
				if panics {
					panic(http.ErrAbortHandler)
				}
				noContent(w, r)
			}), inbound.Config{Pacer: p})
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				serve(t.Context(), h, "")
			}()
			synctest.Wait()
			time.Sleep(time.Hour) // the lease is renewed
			resp := serve(t.Context(), h, "")
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			require.Equal(t, "1", resp.Header.Get("Retry-After"))
			require.Equal(t, `"running";q=1;qu="concurrent-requests"`, resp.Header.Get("Ratelimit-Policy"))
			require.Equal(t, `"running";r=0`, resp.Header.Get("Ratelimit"), "nobody knows for how long")
			close(inside)
			require.Equal(t, panics, <-done != nil)
			s, err := p.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, int64(1), s.Policies[0].Remaining)
		}
	})
}

// With the option, every reply states what is left after the request was charged.
func TestLimitTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.PerSecond(10).Burst(4).Lane("batch", 50).Named("rate"),
			policies.Fixed(6, time.Minute).Per("account").Optional().Named("minute"), policies.InFlight(5).Named("running"))
		defer p.Close()
		lane := func(r *http.Request) []pacer.TryOption {
			if account := r.Header.Get("Account"); account != "" {
				return byAccount(r)
			}
			return []pacer.TryOption{pacer.Lane("batch")}
		}
		h := limited(t, http.HandlerFunc(noContent), inbound.Config{Pacer: p, Options: lane, Fields: true})
		resp := serve(t.Context(), h, "a")
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
		require.Equal(t, `"rate";q=10;w=1, "minute";q=6;w=60, "running";q=5;qu="concurrent-requests"`, resp.Header.Get("Ratelimit-Policy"))
		require.Equal(t, `"rate";r=3;t=1, "minute";r=5;t=60, "running";r=4`, resp.Header.Get("Ratelimit"))
		require.Empty(t, resp.Header.Get("Retry-After"))
		resp = serve(t.Context(), h, "")
		require.Equal(t, `"rate";r=2;t=1, "rate.batch";r=1;t=1, "running";r=4`, resp.Header.Get("Ratelimit"))
		require.Equal(t, `"rate";q=10;w=1, "rate.batch";q=5;w=1, "running";q=5;qu="concurrent-requests"`, resp.Header.Get("Ratelimit-Policy"))
		for range 2 {
			require.Equal(t, http.StatusNoContent, serve(t.Context(), h, "a").StatusCode)
		}
		resp = serve(t.Context(), h, "a")
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.Equal(t, `"rate";r=0;t=1, "minute";r=3;t=60, "running";r=5`, resp.Header.Get("Ratelimit"))
		require.Equal(t, "1", resp.Header.Get("Retry-After"))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: 90 * time.Second}))
		resp = serve(t.Context(), h, "a")
		require.Equal(t, "90", resp.Header.Get("Retry-After"))
		require.Equal(t, `"rate";r=0;t=90, "minute";r=0;t=90, "running";r=0`, resp.Header.Get("Ratelimit"))
		resp = serve(t.Context(), limited(t, http.HandlerFunc(noContent), inbound.Config{Pacer: p, Options: lane}), "a")
		require.Equal(t, "90", resp.Header.Get("Retry-After"))
		require.Empty(t, resp.Header.Get("Ratelimit"), "no policy is to blame")
	})
}

// flaky is a store that fails from a call on.
type flaky struct {
	store.Store

	fails bool
}

var errStore = errors.New("the store fails")

func (f *flaky) Reserve(ctx context.Context, s store.Stack, calls []store.Call, grants []store.Grant) error {
	if f.fails {
		return errStore
	}
	for i := range grants {
		grants[i] = store.Grant{OK: true, Binds: store.BindsNothing, Charges: make([]store.Charge, len(s.Limits))}
	}
	return ctx.Err()
}

func (f *flaky) Status(context.Context, store.Stack) (store.StackStatus, error) {
	return store.StackStatus{}, errStore
}

// An error that is not a refusal by a policy is not reported as one.
func TestLimitWhenThingsFail(t *testing.T) {
	t.Parallel()
	list := []policies.Policy{policies.PerSecond(10).Burst(2).Per("account")}
	s := &flaky{}
	p, err := pacer.New(pacer.Config{Upstream: "test", Store: s, Policies: list})
	require.NoError(t, err)
	closed := limited(t, http.HandlerFunc(noContent), inbound.Config{Pacer: p, Options: byAccount})
	open := limited(t, http.HandlerFunc(noContent), inbound.Config{Pacer: p, Options: byAccount, FailOpen: true})
	reporting := limited(t, http.HandlerFunc(noContent), inbound.Config{Pacer: p, Options: byAccount, Fields: true})
	resp := serve(t.Context(), reporting, "a")
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	require.Empty(t, resp.Header, "that it cannot tell is no reason to refuse")
	s.fails = true
	resp = serve(t.Context(), closed, "a")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Empty(t, resp.Header.Get("Retry-After"))
	require.Equal(t, http.StatusNoContent, serve(t.Context(), open, "a").StatusCode)
	require.Equal(t, http.StatusInternalServerError, serve(t.Context(), open, "").StatusCode, "there is no account: that is no failure of the store")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, http.StatusServiceUnavailable, serve(ended, open, "a").StatusCode)
	costly := limited(t, http.HandlerFunc(noContent), inbound.Config{Pacer: p, Options: func(r *http.Request) []pacer.TryOption {
		return append(byAccount(r), pacer.Cost(3))
	}})
	resp = serve(t.Context(), costly, "a")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Empty(t, resp.Header.Get("Retry-After"), "it never may")
	var got error
	refuse := func(w http.ResponseWriter, r *http.Request, status int, err error) {
		assert.Equal(t, "/things", r.URL.Path)
		got = err
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
	}
	own := limited(t, http.HandlerFunc(noContent), inbound.Config{Pacer: p, Options: byAccount, Refuse: refuse})
	resp = serve(t.Context(), own, "a")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
	require.ErrorIs(t, got, errStore)
	require.NoError(t, p.Close())
	require.Equal(t, http.StatusServiceUnavailable, serve(t.Context(), open, "a").StatusCode, "closed is closed")
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	p := newPacer(t)
	defer p.Close()
	_, err := inbound.New(http.HandlerFunc(noContent), inbound.Config{})
	require.EqualError(t, err, "inbound: Pacer is nil: make one with pacer.New")
	_, err = inbound.New(nil, inbound.Config{Pacer: p})
	require.EqualError(t, err, "inbound: Handler is nil: give the handler for admitted requests")
}

// The handler has the connection's own writer: it can flush, set deadlines and take the connection over.
func TestLimitLeavesTheWriterAlone(t *testing.T) {
	t.Parallel()
	p := newPacer(t, policies.InFlight(3))
	defer p.Close()
	var given http.ResponseWriter
	h := limited(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { given = w }), inbound.Config{Pacer: p, Fields: true})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	require.Same(t, w, given)

	server := httptest.NewServer(limited(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flush" {
			assert.NoError(t, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)))
			_, _ = io.WriteString(w, "first\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		assert.NoError(t, err)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n")
		assert.NoError(t, conn.Close())
	}), inbound.Config{Pacer: p}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/flush")
	require.NoError(t, err)
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "first\n", line, "before the handler has returned")
	require.NoError(t, resp.Body.Close())
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /hijack HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(all), "\r\n\r\nhello\n")
}

// The generic profile reads what a server reports about its limits. A client with the same policies obeys it: it waits as requested, and is
// not refused again.
func TestAPacingClientHeedsALimitingServer(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]policies.Policy{
		"rate": policies.PerSecond(1).Burst(2).Named("requests"), "window": policies.Fixed(3, 10*time.Second).Named("requests"),
		"sliding": policies.Sliding(3, 10*time.Second).Named("requests"), "slow": policies.Every(2500 * ms).Named("requests"),
	} {
		for _, fields := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { heed(t, policy, fields) })
			})
		}
	}
}

func heed(t *testing.T, policy policies.Policy, fields bool) {
	t.Helper()
	server := newPacer(t, policy)
	defer server.Close()
	h := limited(t, http.HandlerFunc(noContent), inbound.Config{Pacer: server, Fields: fields})
	var statuses []int
	var last policies.Reading
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		resp := serve(r.Context(), h, "")
		resp.Request = r
		statuses = append(statuses, resp.StatusCode)
		last = ietf.Profile.Read(&policies.Reply{Status: resp.StatusCode, Header: resp.Header, Now: time.Now()})
		return resp, nil
	})
	client := newPacer(t, policies.PerSecond(100).Burst(100).Named("requests")) // it believes that it may do much more
	defer client.Close()
	rt, err := transport.New(client, transport.WithBase(base))
	require.NoError(t, err)
	for range 20 {
		resp, err := rt.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream.test/things", http.NoBody))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		if resp.StatusCode != http.StatusTooManyRequests {
			if fields {
				require.Len(t, last.Feedback, 1)
				require.Equal(t, []string{"requests"}, last.Feedback[0].Policies)
				_, reported := last.Feedback[0].Remaining.Value()
				require.True(t, reported)
			} else {
				require.Empty(t, last.Feedback)
			}
			continue
		}
		require.Equal(t, policies.Limited, last.Verdict)
		require.Len(t, last.Feedback, 2, "what refused, and its count")
		refusal, count := last.Feedback[0], last.Feedback[1]
		require.True(t, refusal.Refused)
		require.Equal(t, "Retry-After", refusal.Source)
		require.Equal(t, []string{"requests"}, count.Policies)
		require.Equal(t, policies.Reported(0), count.Remaining)
		quota := ietf.QuotaOf(policy, 0, 0)
		require.Equal(t, policies.Reported(quota.Limit), count.Limit)
		require.Equal(t, quota.Window, count.Window)
		require.LessOrEqual(t, count.Reset, refusal.Wait)
		// A single refusal may be stray, and then only its own call waits, as this one does.
		time.Sleep(refusal.Wait)
	}
	for i := range statuses[1:] {
		require.False(t, statuses[i] == http.StatusTooManyRequests && statuses[i+1] == http.StatusTooManyRequests, "%v", statuses)
	}
	if !fields {
		require.Contains(t, statuses, http.StatusTooManyRequests, "else this shows nothing")
	}
}
