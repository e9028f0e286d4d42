package upstreamtest_test

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/transport/upstreamtest"
)

const ms = time.Millisecond

// send returns the reply to a call.
func send(t *testing.T, u *upstreamtest.Upstream, tenant string) *http.Response {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://api.test/", strings.NewReader("a body"))
	req.Header.Set("Tenant", tenant)
	resp, err := u.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp
}

func byTenant(r *http.Request) string { return r.Header.Get("Tenant") }

// Each kind of limit admits a call or has it wait for exactly as long as it must.
func TestTheUpstreamIsStrict(t *testing.T) {
	t.Parallel()
	type call struct {
		at, wait time.Duration
	}
	limits := func(ls ...upstreamtest.Limit) []upstreamtest.Limit { return ls }
	for name, c := range map[string]struct {
		limits []upstreamtest.Limit
		calls  []call
	}{
		"sliding window": {
			limits(upstreamtest.Sliding(2, time.Second)),
			[]call{{0, 0}, {300 * ms, 0}, {999 * ms, 1 * ms}, {1000 * ms, 0}, {1001 * ms, 299 * ms}, {1300 * ms, 0}},
		},
		"sliding window of no calls, which has no end": {
			limits(upstreamtest.Sliding(0, time.Second).CountRefused(), upstreamtest.FromFirst(3, time.Second)),
			[]call{{0, 0}, {300 * ms, 0}},
		},
		"sliding window that counts refused calls": {
			limits(upstreamtest.Sliding(2, time.Second).CountRefused()),
			[]call{{0, 0}, {300 * ms, 0}, {900 * ms, 400 * ms}, {1200 * ms, 700 * ms}, {1900 * ms, 0}, {2000 * ms, 900 * ms}, {2900 * ms, 0}},
		},
		"fixed window": {
			limits(upstreamtest.Fixed(2, time.Second)),
			[]call{{900 * ms, 0}, {950 * ms, 0}, {960 * ms, 40 * ms}, {1000 * ms, 0}, {1000 * ms, 0}, {1001 * ms, 999 * ms}},
		},
		"window from the first call on": {
			limits(upstreamtest.FromFirst(2, time.Second)),
			[]call{{900 * ms, 0}, {950 * ms, 0}, {1000 * ms, 900 * ms}, {1899 * ms, 1 * ms}, {2500 * ms, 0}, {2600 * ms, 0}, {2700 * ms, 800 * ms}},
		},
		"token bucket": {
			limits(upstreamtest.Bucket(2, 100*ms)),
			[]call{{0, 0}, {0, 0}, {0, 100 * ms}, {99 * ms, 1 * ms}, {100 * ms, 0}, {10_000 * ms, 0}, {10_000 * ms, 0}, {10_000 * ms, 100 * ms}},
		},
		"all limits or none": {
			limits(upstreamtest.Sliding(2, time.Second), upstreamtest.Fixed(1, 100*ms)),
			[]call{{0, 0}, {10 * ms, 90 * ms}, {20 * ms, 80 * ms}, {100 * ms, 0}, {200 * ms, 800 * ms}, {1000 * ms, 0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var wait time.Duration
				u := &upstreamtest.Upstream{Limits: c.limits, Refuse: func(_ http.ResponseWriter, _ *http.Request, d time.Duration) { wait = d }}
				start := time.Now()
				for i, call := range c.calls {
					time.Sleep(call.at - time.Since(start))
					wait = 0
					send(t, u, "")
					require.Equal(t, call.wait, wait, "call %d", i)
				}
				require.Equal(t, len(c.calls), u.Admitted()+u.Refused())
			})
		})
	}
}

func TestALimitPerTenantAndAnotherLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &upstreamtest.Upstream{Limits: []upstreamtest.Limit{upstreamtest.Sliding(2, time.Second).Per(byTenant)}}
		for _, c := range []struct {
			tenant string
			status int
		}{{"a", 200}, {"a", 200}, {"b", 200}, {"a", 429}, {"b", 200}} {
			require.Equal(t, c.status, send(t, u, c.tenant).StatusCode)
		}
		u.SetLimits(upstreamtest.Sliding(3, time.Second).Per(byTenant))
		require.Equal(t, 200, send(t, u, "a").StatusCode)
		require.Equal(t, "1", send(t, u, "a").Header.Get("Retry-After"))
		u.SetLimits(upstreamtest.Sliding(1, time.Second).Per(byTenant))
		time.Sleep(time.Second)
		require.Equal(t, 200, send(t, u, "a").StatusCode)
		require.Equal(t, 429, send(t, u, "a").StatusCode)
	})
}

func TestCallsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &upstreamtest.Upstream{
			Limits:  []upstreamtest.Limit{upstreamtest.InFlight(2)},
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }),
			Delay:   func() time.Duration { return 10 * ms },
		}
		start := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { send(t, u, "") })
		}
		all.Wait()
		require.Equal(t, time.Second+20*ms, time.Since(start))
		require.Equal(t, 2, u.Admitted())
		resp := send(t, u, "")
		require.Equal(t, 200, resp.StatusCode)
		require.Empty(t, resp.Header.Get("Retry-After"))
	})
}

func TestInjectedAnswersAndOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &upstreamtest.Upstream{
			Limits: []upstreamtest.Limit{upstreamtest.Fixed(2, time.Minute)},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusCreated)
				_, _ = io.Copy(w, r.Body)
			}),
		}
		u.Inject(2, upstreamtest.Refusal(http.StatusServiceUnavailable, 1500*ms))
		for range 2 {
			resp := send(t, u, "")
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			require.Equal(t, "2", resp.Header.Get("Retry-After"))
		}
		require.True(t, u.Spend(nil))
		require.Equal(t, http.StatusCreated, send(t, u, "").StatusCode)
		require.False(t, u.Spend(nil))
		require.Equal(t, http.StatusTooManyRequests, send(t, u, "").StatusCode)
		require.Equal(t, []int{1, 3}, []int{u.Admitted(), u.Refused()})
		calls := u.Calls()
		require.Len(t, calls, 4)
		require.True(t, calls[2].Admitted)
		require.Equal(t, "a body", string(calls[2].Body))
	})
}

// The upstream states what is left as vendors do, by its own clock.
func TestWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			limits []upstreamtest.Limit
			state  func(http.Header, upstreamtest.Reply)
			want   [3]string
		}{
			"seconds": {
				[]upstreamtest.Limit{upstreamtest.Fixed(3, time.Minute), upstreamtest.Sliding(100, time.Hour)},
				upstreamtest.Fields("A", "B", "C", upstreamtest.Seconds), [3]string{"3", "2", "60"},
			},
			"unix":      {[]upstreamtest.Limit{upstreamtest.FromFirst(3, time.Hour)}, upstreamtest.Fields("A", "B", "C", upstreamtest.Unix), [3]string{"3", "2", "946688437"}},
			"timestamp": {[]upstreamtest.Limit{upstreamtest.Sliding(3, time.Hour)}, upstreamtest.Fields("A", "B", "C", upstreamtest.Timestamp), [3]string{"3", "2", "2000-01-01T01:00:37Z"}},
			"duration":  {[]upstreamtest.Limit{upstreamtest.Bucket(3, 1500*time.Microsecond)}, upstreamtest.Fields("A", "B", "C", upstreamtest.Duration), [3]string{"3", "2", "2ms"}},
			"nothing at once": {
				[]upstreamtest.Limit{upstreamtest.InFlight(1), upstreamtest.Sliding(3, time.Second)}, upstreamtest.Fields("A", "B", "C", upstreamtest.Seconds), [3]string{"3", "2", "1"},
			},
			"by names": {
				[]upstreamtest.Limit{upstreamtest.Sliding(3, time.Second).Named("burst"), upstreamtest.Bucket(100, ms).Named("day")}, upstreamtest.RateLimit,
				[3]string{`"burst";r=2;t=1, "day";r=99;t=1`, `"burst";q=3;w=1, "day";q=100;w=1`},
			},
		} {
			u := &upstreamtest.Upstream{Limits: c.limits, State: c.state, Now: func() time.Time { return time.Now().Add(37 * time.Second).Truncate(time.Second) }}
			if name == "seconds" {
				u.Now = nil
			}
			h := send(t, u, "").Header
			if name == "by names" {
				h = http.Header{"A": h.Values("Ratelimit"), "B": h.Values("Ratelimit-Policy")}
			} else {
				require.Equal(t, map[bool]string{true: "00", false: "37"}[name == "seconds"], h.Get("Date")[23:25])
			}
			require.Equal(t, c.want, [3]string{h.Get("A"), h.Get("B"), h.Get("C")}, name)
		}
	})
}

// Over a real socket it is as strict.
func TestTheHandler(t *testing.T) {
	t.Parallel()
	u := &upstreamtest.Upstream{Limits: []upstreamtest.Limit{upstreamtest.Sliding(1, math.MaxInt64)}}
	server := httptest.NewServer(u)
	defer server.Close()
	for _, status := range []int{200, 429} {
		resp, err := server.Client().Post(server.URL, "", strings.NewReader("a body"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode)
	}
}
