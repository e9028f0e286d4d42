package standin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/examples/zendesk/standin"
)

const refusal = "Number of allowed API requests per minute exceeded"

// A client calls a stand-in without a network, as one user.
type client struct {
	t    *testing.T
	s    *standin.Standin
	user string
}

func newClient(t *testing.T, c standin.Config) *client {
	t.Helper()
	s, err := standin.New(c)
	require.NoError(t, err)
	return &client{t: t, s: s, user: "ann@example.com/token"}
}

func (c *client) do(method, path, body string) *httptest.ResponseRecorder {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), method, path, strings.NewReader(body))
	r.SetBasicAuth(c.user, "secret")
	w := httptest.NewRecorder()
	c.s.ServeHTTP(w, r)
	return w
}

func (c *client) get(path string) *httptest.ResponseRecorder {
	c.t.Helper()
	return c.do(http.MethodGet, path, "")
}

func (c *client) update(id int) *httptest.ResponseRecorder {
	c.t.Helper()
	return c.do(http.MethodPut, "/acme/api/v2/tickets/"+strconv.Itoa(id)+".json", `{"ticket":{"tags":["seen"]}}`)
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v), w.Body.String())
	return v
}

func TestPlans(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"team", "growth", "professional", "enterprise", "enterprise-plus"}, standin.Plans())
	limit, ok := standin.PlanLimit("enterprise")
	require.True(t, ok)
	require.Equal(t, 700, limit)
	require.Equal(t, 14, standin.Peak(limit))
	require.Equal(t, 6, standin.Peak(200))

	_, err := standin.New(standin.Config{Plan: "gold"})
	require.EqualError(t, err, `standin: there is no plan "gold": choose one of team, growth, professional, enterprise, enterprise-plus`)
	_, err = standin.New(standin.Config{Plan: "team", Peak: -1})
	require.ErrorContains(t, err, "-1")
}

func TestAccountLimitIsPerMinuteInAnyWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Plan: "team", Latency: standin.NoLatency})
		for range 100 {
			require.Equal(t, http.StatusOK, c.get("/acme/api/v2/tickets/1.json").Code)
		}
		time.Sleep(30 * time.Second)
		for range 100 {
			require.Equal(t, http.StatusOK, c.get("/acme/api/v2/tickets/1.json").Code)
		}
		time.Sleep(29*time.Second + 100*time.Millisecond)
		w := c.get("/acme/api/v2/tickets/1.json")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"), "900 ms, rounded up")
		require.Equal(t, refusal, w.Body.String())
		require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, "200", w.Header().Get("X-Rate-Limit"))
		require.Equal(t, "0", w.Header().Get("X-Rate-Limit-Remaining"))

		// One microsecond short of a minute is too soon; a minute is not, and the refused calls have not been counted.
		time.Sleep(900*time.Millisecond - time.Microsecond)
		require.Equal(t, http.StatusTooManyRequests, c.get("/acme/api/v2/tickets/1.json").Code)
		time.Sleep(time.Microsecond)
		for range 100 {
			require.Equal(t, http.StatusOK, c.get("/acme/api/v2/tickets/1.json").Code)
		}
		require.Equal(t, "30", c.get("/acme/api/v2/tickets/1.json").Header().Get("Retry-After"))

		// Another account has limits of its own.
		w = c.get("/globex/api/v2/tickets/1.json")
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "199", w.Header().Get("X-Rate-Limit-Remaining"))
		require.Equal(t, "199", w.Header().Get("Ratelimit-Remaining"))
		require.Equal(t, "200", w.Header().Get("Ratelimit-Limit"))
		require.Equal(t, "60", w.Header().Get("Ratelimit-Reset"))
	})
}

func TestPeak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Plan: "enterprise", Peak: 14, Latency: standin.NoLatency})
		for range 14 {
			require.Equal(t, http.StatusOK, c.get("/acme/api/v2/tickets/1.json").Code)
			time.Sleep(50 * time.Millisecond)
		}
		w := c.get("/acme/api/v2/tickets/1.json")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Equal(t, "686", w.Header().Get("X-Rate-Limit-Remaining"))
		time.Sleep(300 * time.Millisecond)
		require.Equal(t, http.StatusOK, c.get("/acme/api/v2/tickets/1.json").Code)
		require.Equal(t, http.StatusTooManyRequests, c.get("/acme/api/v2/tickets/1.json").Code)
		require.Equal(t, map[string]int{"peak": 2}, c.s.Stats().Tenants["acme"].RefusedBy)
	})
}

func TestUpdateLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Plan: "enterprise", Latency: standin.NoLatency})
		for i := range 30 {
			w := c.update(7)
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, "total=30; remaining="+strconv.Itoa(29-i)+"; resets=600", w.Header().Get("Zendesk-Ratelimit-Tickets-Update"))
		}
		w := c.update(7)
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "600", w.Header().Get("Retry-After"))
		require.Equal(t, "total=30; remaining=0; resets=600", w.Header().Get("Zendesk-Ratelimit-Tickets-Update"))
		require.Equal(t, http.StatusOK, c.get("/acme/api/v2/tickets/7.json").Code, "reading has nothing to do with it")

		bob := *c
		bob.user = "bob@example.com/token"
		require.Equal(t, http.StatusOK, bob.update(7).Code, "another user")
		require.Equal(t, http.StatusOK, c.update(8).Code, "another ticket")

		// 32 updates so far. The account has 100 in a minute.
		for i := range 68 {
			require.Equal(t, http.StatusOK, c.update(100+i).Code)
		}
		w = c.update(99)
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "60", w.Header().Get("Retry-After"))
		require.Equal(t, "total=100; remaining=0; resets=60", w.Header().Get("Zendesk-Ratelimit-Tickets-Update"))
		require.Equal(t, map[string]int{"ticket": 1, "tickets-update": 1}, c.s.Stats().Tenants["acme"].RefusedBy)

		time.Sleep(10*time.Minute - time.Microsecond)
		require.Equal(t, http.StatusTooManyRequests, c.update(7).Code)
		time.Sleep(time.Microsecond)
		require.Equal(t, http.StatusOK, c.update(7).Code)
	})
}

func TestEndpointLimitsGrowWithTheHighestPlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Plan: "enterprise-plus", Latency: standin.NoLatency})
		for range 300 {
			require.Equal(t, http.StatusOK, c.get("/acme/api/v2/tickets.json?per_page=1").Code)
		}
		w := c.get("/acme/api/v2/tickets.json?per_page=1")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "total=300; remaining=0; resets=60", w.Header().Get("Zendesk-Ratelimit-Tickets-Index"))
	})
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Plan: "team", Latency: standin.NoLatency})
	for _, user := range []string{"", "/token", "ann@example.com"} {
		c.user = user
		require.Equal(t, http.StatusUnauthorized, c.get("/acme/api/v2/tickets.json").Code, user)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/acme/api/v2/tickets.json", nil)
	w := httptest.NewRecorder()
	c.s.ServeHTTP(w, r)
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Empty(t, c.s.Stats().Tenants, "not counted")
}

func TestLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Plan: "team", Peak: 1})
		began := time.Now()
		require.Equal(t, http.StatusOK, c.get("/acme/api/v2/tickets/1.json").Code)
		require.Equal(t, standin.DefaultLatency, time.Since(began))
		require.Equal(t, http.StatusTooManyRequests, c.get("/acme/api/v2/tickets/1.json").Code)
		require.Equal(t, standin.DefaultLatency, time.Since(began), "a refusal comes at once")
	})
}

func TestStats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Plan: "team", Peak: 2, Latency: standin.NoLatency})
		for range 3 {
			c.get("/acme/api/v2/tickets/1.json")
		}
		time.Sleep(2500 * time.Millisecond)
		c.get("/acme/api/v2/tickets/1.json")
		c.get("/globex/api/v2/tickets/1.json")
		time.Sleep(time.Second)

		stats := decode[standin.Stats](t, c.get(standin.StatsPath))
		require.Equal(t, standin.Stats{
			Plan: "team", LimitPerMinute: 200, PeakPerSecond: 2, UptimeMS: 3500, IdleMS: 1000,
			Tenants: map[string]standin.TenantRow{
				"acme": {
					Admitted: 3, Refused: 1, RefusedBy: map[string]int{"peak": 1},
					AdmittedPerSecond: []int{2, 0, 1}, RefusedPerSecond: []int{1, 0, 0},
				},
				"globex": {
					Admitted: 1, RefusedBy: map[string]int{},
					AdmittedPerSecond: []int{0, 0, 1}, RefusedPerSecond: []int{0, 0, 0},
				},
			},
		}, stats)
	})
}
