package standin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/examples/salesforce/standin"
)

const (
	base    = "/services/data/v63.0"
	account = base + "/sobjects/Account/001000000000000AAA"
	info    = "Sforce-Limit-Info"
)

// Salesforce's answers when a limit is exceeded.
const (
	daily      = `[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]`
	concurrent = `[{"message":"ConcurrentPerOrgLongTxn Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]`
)

// A client calls a stand-in without a network, as one consumer.
type client struct {
	t     *testing.T
	s     *standin.Standin
	token string
}

// newClient returns a client of a new stand-in that answers at once by default.
func newClient(t *testing.T, c standin.Config) *client {
	t.Helper()
	c.Tokens = map[string]string{"sync-token": "sync", "bi-token": "bi"}
	if c.Latency == 0 {
		c.Latency = standin.NoLatency
	}
	s, err := standin.New(c)
	require.NoError(t, err)
	return &client{t: t, s: s, token: "sync-token"}
}

func (c *client) do(method, path, latency string) *httptest.ResponseRecorder {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), method, path, http.NoBody)
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set(standin.LatencyHeader, latency)
	w := httptest.NewRecorder()
	c.s.ServeHTTP(w, r)
	return w
}

func (c *client) get(path string) *httptest.ResponseRecorder {
	c.t.Helper()
	return c.do(http.MethodGet, path, "")
}

// spend makes calls that must be admitted.
func (c *client) spend(n int) {
	c.t.Helper()
	for range n {
		require.Equal(c.t, http.StatusOK, c.get(account).Code)
	}
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v), w.Body.String())
	return v
}

func TestConfig(t *testing.T) {
	t.Parallel()
	tokens := map[string]string{"x": "sync"}
	for want, c := range map[string]standin.Config{
		"an allocation of 0 calls": {Tokens: tokens},
		"no tokens":                {Allocation: 1},
		"a peak of -1 calls":       {Allocation: 1, Tokens: tokens, Peak: -1},
		"page size":                {Allocation: 1, Tokens: tokens, PageSize: -1},
		"long requests":            {Allocation: 1, Tokens: tokens, LongLimit: -1},
	} {
		_, err := standin.New(c)
		require.ErrorContains(t, err, want)
	}
}

func TestAllocationRollsOver24Hours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Allocation: 100})
		c.spend(40)
		time.Sleep(10 * time.Hour)
		c.spend(60)

		w := c.get(account)
		require.Equal(t, http.StatusForbidden, w.Code)
		require.JSONEq(t, daily, w.Body.String())
		require.Equal(t, "application/json;charset=UTF-8", w.Header().Get("Content-Type"))
		require.Equal(t, "api-usage=100/100", w.Header().Get(info), "a refused call is not counted")
		require.Empty(t, w.Header().Get("Retry-After"))

		// There is no midnight: one microsecond short of 24 hours is too soon, and then only what is a day old comes back.
		time.Sleep(14*time.Hour - time.Microsecond)
		require.Equal(t, http.StatusForbidden, c.get(account).Code)
		time.Sleep(time.Microsecond)
		require.Equal(t, "api-usage=61/100", c.get(account).Header().Get(info))
		c.spend(39)
		require.Equal(t, http.StatusForbidden, c.get(account).Code)

		time.Sleep(10 * time.Hour)
		c.spend(60)
		require.Equal(t, http.StatusForbidden, c.get(account).Code)
		require.Equal(t, map[string]int{"daily": 4}, c.s.Stats().Consumers["sync"].RefusedBy)
	})
}

func TestAllConsumersSpendOneAllocation(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Allocation: 10})
	c.spend(3)
	other := *c
	other.token = "bi-token"
	other.spend(2)
	for range 4 {
		require.True(t, c.s.Spend("cron"))
	}
	require.Equal(t, "api-usage=10/10", c.get(account).Header().Get(info))
	require.Equal(t, http.StatusForbidden, c.get(account).Code)
	require.Equal(t, http.StatusForbidden, other.get(account).Code)
	require.False(t, c.s.Spend("cron"))

	stats := c.s.Stats()
	require.Equal(t, 10, stats.Used)
	require.Equal(t, 4, stats.Consumers["sync"].Admitted)
	require.Equal(t, 2, stats.Consumers["bi"].Admitted)
	require.Equal(t, 4, stats.Consumers["cron"].Admitted)
	require.Equal(t, 1, stats.Consumers["cron"].Refused)
}

func TestConcurrentCallsSpendNoMoreThanThereIs(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Allocation: 50, Latency: time.Millisecond})
	codes := make(chan int, 200)
	var wg sync.WaitGroup
	for range cap(codes) {
		wg.Go(func() { codes <- c.get(account).Code })
	}
	wg.Wait()
	close(codes)
	count := map[int]int{}
	for code := range codes {
		count[code]++
	}
	require.Equal(t, map[int]int{http.StatusOK: 50, http.StatusForbidden: 150}, count)
}

func TestLongRequestsShutTheOrgForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Allocation: 100, LongLimit: 2})
		var wg sync.WaitGroup
		for _, takes := range []string{"25s", "30s"} {
			wg.Go(func() { c.do(http.MethodGet, account, takes) })
		}
		// Requests that have not been running for 20 s limit nobody.
		time.Sleep(20*time.Second - time.Microsecond)
		c.spend(5)
		time.Sleep(time.Microsecond)
		w := c.get(account)
		require.Equal(t, http.StatusForbidden, w.Code)
		require.JSONEq(t, concurrent, w.Body.String())
		require.Equal(t, "api-usage=7/100", w.Header().Get(info))
		other := *c
		other.token = "bi-token"
		require.Equal(t, http.StatusForbidden, other.get(account).Code)

		time.Sleep(5*time.Second + time.Microsecond)
		c.spend(1)
		wg.Wait()
		require.Equal(t, map[string]int{"concurrent": 1}, c.s.Stats().Consumers["sync"].RefusedBy)
	})
}

func TestLongRequestsCanBeMadeShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Allocation: 100, LongLimit: 1, LongAfter: 50 * time.Millisecond})
		var wg sync.WaitGroup
		wg.Go(func() { c.do(http.MethodGet, account, "60ms") })
		time.Sleep(55 * time.Millisecond)
		require.Equal(t, http.StatusForbidden, c.get(account).Code)
		wg.Wait()
		c.spend(1)
	})
}

func TestNoRequestTakesMoreThanTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Allocation: 100})
		began := time.Now()
		c.do(http.MethodGet, account, "24h")
		require.Equal(t, standin.MaxLatency, time.Since(began))
	})
}

func TestPeak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Allocation: 100, Peak: 5})
		for range 5 {
			c.spend(1)
			time.Sleep(100 * time.Millisecond)
		}
		w := c.get(account)
		require.Equal(t, http.StatusForbidden, w.Code)
		require.Contains(t, w.Body.String(), "Standin peak per second exceeded.")
		other := *c
		other.token = "bi-token"
		other.spend(5)
		for range 20 {
			require.True(t, c.s.Spend("cron"), "it has no peak")
			require.Equal(t, http.StatusOK, c.get(base+"/limits").Code, "nor has asking for the limits")
		}

		time.Sleep(500 * time.Millisecond)
		c.spend(1)
		require.Equal(t, http.StatusForbidden, c.get(account).Code)
		require.Equal(t, map[string]int{"peak": 2}, c.s.Stats().Consumers["sync"].RefusedBy)
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Allocation: 10})
	for _, token := range []string{"", "nonsense", "sync-token2"} {
		c.token = token
		w := c.get(account)
		require.Equal(t, http.StatusUnauthorized, w.Code, token)
		require.JSONEq(t, `[{"message":"Session expired or invalid","errorCode":"INVALID_SESSION_ID"}]`, w.Body.String())
		require.Empty(t, w.Header().Get(info))
	}
	for _, authorization := range []string{"", "sync-token", "Basic sync-token"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, account, http.NoBody)
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		c.s.ServeHTTP(w, r)
		require.Equal(t, http.StatusUnauthorized, w.Code, authorization)
	}
	require.Zero(t, c.s.Stats().Used, "not counted")
}

func TestLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Allocation: 1, Latency: 30 * time.Millisecond})
		began := time.Now()
		c.spend(1)
		require.Equal(t, 30*time.Millisecond, time.Since(began))
		require.Equal(t, http.StatusForbidden, c.get(account).Code)
		require.Equal(t, 30*time.Millisecond, time.Since(began), "a refusal comes at once")
	})
}

func TestStats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standin.Config{Allocation: 4, Peak: 2})
		for range 3 {
			c.get(account)
		}
		time.Sleep(2500 * time.Millisecond)
		require.True(t, c.s.Spend("bi"))
		c.get(account)
		require.False(t, c.s.Spend("bi"))
		time.Sleep(time.Second)

		stats := decode[standin.Stats](t, c.get(standin.StatsPath))
		require.Regexp(t, "^00D[A-Z2-7]{12}$", stats.Org)
		stats.Org = ""
		require.Equal(t, standin.Stats{
			Allocation: 4, Used: 4, PeakPerSecond: 2, UptimeMS: 3500, IdleMS: 1000,
			Consumers: map[string]standin.ConsumerRow{
				"sync": {
					Admitted: 3, Refused: 1, RefusedBy: map[string]int{"peak": 1},
					AdmittedPerSecond: []int{2, 0, 1}, RefusedPerSecond: []int{1, 0, 0},
				},
				"bi": {
					Admitted: 1, Refused: 1, RefusedBy: map[string]int{"daily": 1},
					AdmittedPerSecond: []int{0, 0, 1}, RefusedPerSecond: []int{0, 0, 1},
				},
			},
		}, stats)
	})
}

func TestEveryAnswerTellsTheUsage(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Allocation: 10})
	for i, path := range []string{account, base + "/limits", base + "/query?q=SELECT", base + "/nonsense", "/nonsense", account} {
		require.Equal(t, fmt.Sprintf("api-usage=%d/10", i+1), c.get(path).Header().Get(info), path)
	}
}
