package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

func TestA429PausesEveryWaitingCall(t *testing.T) {
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
	const guess = time.Second + 100*time.Millisecond // a try at the very end of a period may come before it
	date := "Fri, 31 Dec 1999 23:59:50 GMT"
	for name, c := range map[string]struct {
		status  int
		headers []string
		pause   time.Duration
	}{
		"seconds":         {429, []string{"Retry-After", "3"}, 3 * time.Second},
		"decimals":        {429, []string{"Retry-After", "2.0"}, 2 * time.Second},
		"zero":            {429, []string{"Retry-After", "0"}, guess},
		"503":             {503, []string{"Retry-After", "3"}, 3 * time.Second},
		"IMF date":        {429, []string{"Date", date, "Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"}, 9 * time.Second},
		"RFC 850 date":    {429, []string{"Date", date, "Retry-After", "Friday, 31-Dec-99 23:59:59 GMT"}, 9 * time.Second},
		"asctime date":    {429, []string{"Date", date, "Retry-After", "Fri Dec 31 23:59:59 1999"}, 9 * time.Second},
		"past date":       {429, []string{"Date", date, "Retry-After", "Fri, 31 Dec 1999 23:59:00 GMT"}, guess},
		"two fields":      {429, []string{"Retry-After", "3", "Retry-After", "5"}, 5 * time.Second},
		"capped":          {429, []string{"Retry-After", "9223372037"}, time.Hour},
		"capped, larger":  {429, []string{"Retry-After", "99999999999999999999"}, time.Hour},
		"negative":        {429, []string{"Retry-After", "-1"}, guess},
		"garbage":         {429, []string{"Retry-After", "soon"}, guess},
		"empty":           {429, []string{"Retry-After", ""}, guess},
		"none":            {429, nil, guess},
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

// If the pacer could not apply a pause to any limit, the request that received it waits all the same.
func TestAPauseThatFitsNoLimitIsWaitedFor(t *testing.T) {
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

// A caller that leaves just as the answer arrives must not take the pause with it: it is for everyone.
func TestAPauseOutlivesTheCallerThatReceivedIt(t *testing.T) {
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
				p, err := pacer.New(pacer.Config{Upstream: "test", Store: remoteStore{memstore.New()}})
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

// A retry that waits for its slot heeds a pause that another call receives, as every waiting call does.
func TestAWaitingRetryHeedsALaterPause(t *testing.T) {
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

// remoteStore fails as a store behind a network does when the context is done.
type remoteStore struct{ store.Store }

func (s remoteStore) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	if _, ok := ctx.Deadline(); !ok {
		return 0, 0, errors.New("a store that hangs would withhold the response for ever")
	}
	return s.Store.Report(ctx, stack, notes)
}
