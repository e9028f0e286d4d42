package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/serve"
)

// acquire answers at the slot.
func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {policies: ["1 per 10s, per tenant"], jitter: none}`, nil)
		since := elapsed()
		for i := range 3 {
			out := r.ok("/v1/acquire", `{"upstream": "crm", "scopes": {"tenant": "acme"}}`)
			require.Zero(t, out["wait_ms"])
			require.Equal(t, time.Duration(i)*10*time.Second, since())
			require.Empty(t, r.ok("/v1/release", fmt.Sprintf(`{"reservation": %q}`, out["reservation"])))
		}
		status, p := r.call("/v1/acquire", `{"upstream": "crm", "scopes": {"tenant": "acme"}, "max_wait_ms": 9999}`)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, []any{"limit", "crm", "every-10s.tenant", "tenant=acme"}, []any{p["reason"], p["upstream"], p["policy"], p["key"]})
		require.InDelta(t, 10_000, p["retry_after_ms"], 0)
	})
}

// With "wait": false the slot is booked, and the client comes back: nothing of it stays in the server, and the reservation goes once.
func TestAcquireBooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {policies: ["1 per 10s"], jitter: none}`, nil)
		since := elapsed()
		require.Zero(t, r.ok("/v1/acquire", `{"upstream": "crm", "wait": false}`)["wait_ms"])
		out := r.ok("/v1/acquire", `{"upstream": "crm", "wait": false}`)
		require.InDelta(t, 9750, out["wait_ms"], 0, "there is no slack for a client that is late")
		other := r.ok("/v1/acquire", `{"upstream": "crm", "wait": false, "early_ms": 5000}`)
		require.InDelta(t, 15_000, other["wait_ms"], 0)
		require.Zero(t, since())

		time.Sleep(9 * time.Second)
		again := fmt.Sprintf(`{"reservation": %q, "wait": false}`, out["reservation"])
		early := r.ok("/v1/acquire", again)
		require.InDelta(t, 750, early["wait_ms"], 0)
		require.Equal(t, out["reservation"], early["reservation"])
		went := r.ok("/v1/acquire", fmt.Sprintf(`{"reservation": %q, "wait": false, "early_ms": 1000}`, out["reservation"]))
		require.Zero(t, went["wait_ms"])
		require.Equal(t, 10*time.Second, since(), "the answer comes at the slot")
		status, p := r.call("/v1/acquire", again)
		require.Equal(t, []any{http.StatusConflict, "reservation"}, []any{status, p["reason"]})
		second := r.ok("/v1/acquire", fmt.Sprintf(`{"reservation": %q, "attempt": 2}`, out["reservation"]))
		require.Zero(t, second["wait_ms"])
		require.Equal(t, 30*time.Second, since(), "another attempt needs another slot")

		require.Empty(t, r.ok("/v1/release", fmt.Sprintf(`{"reservation": %q}`, went["reservation"])))
		status, p = r.call("/v1/release", fmt.Sprintf(`{"reservation": %q}`, went["reservation"]))
		require.Equal(t, []any{http.StatusNotFound, "request"}, []any{status, p["reason"]})
	})
}

// Clients of a queue come late to their slots. None loses its slot, whether the policy has slack for that or not.
func TestLateClients(t *testing.T) {
	t.Parallel()
	const jobs = 100
	for policy, late := range map[string]time.Duration{"10 per 1s": 240 * time.Millisecond, "10 per 1s, burst 2": 240 * time.Millisecond, "10 per 1s, burst 8": 600 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, `  crm: {policies: ["`+policy+`"]}`, nil)
			since := elapsed()
			var all sync.WaitGroup
			for range jobs {
				all.Go(func() {
					out := r.ok("/v1/acquire", `{"upstream": "crm", "wait": false}`)
					if wait, _ := out["wait_ms"].(float64); wait > 0 {
						time.Sleep(time.Duration(wait)*time.Millisecond + time.Duration(rand.Int64N(int64(late))))
						out = r.ok("/v1/acquire", fmt.Sprintf(`{"reservation": %q, "wait": false}`, out["reservation"]))
					}
					require.Zero(t, out["wait_ms"], policy)
				})
				synctest.Wait()
			}
			all.Wait()
			require.LessOrEqual(t, since(), jobs*100*time.Millisecond+late, policy)
		})
	}
}

// The API's calls use each slot, and are charged for no other: four clients that make one call after the other use the whole limit.
func TestClientsUseTheWholeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {policies: ["account: at most 700 in any 1m, burst 2, skew 50ms", "peak: at most 14 in any 1s, burst 2, skew 50ms", "all: 100000 per window of 8760h"]}`, nil)
		since := elapsed()
		var all sync.WaitGroup
		var calls atomic.Int64
		const length = 2 * time.Minute
		for range 4 {
			all.Go(func() {
				for since() < length {
					out := r.ok("/v1/acquire", `{"upstream": "crm"}`)
					time.Sleep(rand.N(50 * time.Millisecond)) // the call
					calls.Add(1)
					for _, end := range []string{`"status": 200`, `"unused": false`} {
						path := map[bool]string{true: "report", false: "release"}[end == `"status": 200`]
						r.ok("/v1/"+path, fmt.Sprintf(`{"reservation": %q, %s}`, out["reservation"], end))
						time.Sleep(rand.N(25 * time.Millisecond))
					}
				}
			})
		}
		all.Wait()
		require.GreaterOrEqual(t, float64(calls.Load()), 0.99*700*length.Minutes())
		_, body := r.read("/v1/status")
		require.Contains(t, body, fmt.Sprintf(`"remaining":%d`, 100_000-calls.Load()))
	})
}

// A booking that is released gives its slot to others.
func TestReleaseCancelsABooking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {policies: ["1 per 10s"], jitter: none}`, nil)
		_ = r.ok("/v1/acquire", `{"upstream": "crm"}`)
		out := r.ok("/v1/acquire", `{"upstream": "crm", "wait": false}`)
		require.Empty(t, r.ok("/v1/release", fmt.Sprintf(`{"reservation": %q}`, out["reservation"])))
		require.InDelta(t, 9750, r.ok("/v1/acquire", `{"upstream": "crm", "wait": false}`)["wait_ms"], 0)
		status, _ := r.call("/v1/release", fmt.Sprintf(`{"reservation": %q}`, out["reservation"]))
		require.Equal(t, http.StatusConflict, status)
	})
}

// A permit is back when the call is released, and when it takes longer than it may; an unused call is not charged.
func TestPermitsAndUnusedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {policies: ["1 in flight", "quota: 10 per window of 1h"]}`, nil)
		since := elapsed()
		_ = r.ok("/v1/acquire", `{"upstream": "crm", "timeout_ms": 20000}`)
		status, p := r.call("/v1/acquire", `{"upstream": "crm", "max_wait_ms": 0}`)
		require.Equal(t, []any{http.StatusServiceUnavailable, "in-flight"}, []any{status, p["policy"]})
		out := r.ok("/v1/acquire", `{"upstream": "crm"}`)
		require.InDelta(t, 20, since().Seconds(), 1)
		_, body := r.read("/v1/status?upstream=crm")
		require.Contains(t, body, `"remaining":8`)
		require.Empty(t, r.ok("/v1/release", fmt.Sprintf(`{"reservation": %q, "unused": true}`, out["reservation"])))
		_, body = r.read("/v1/status?upstream=crm")
		require.Contains(t, body, `"remaining":9`)
		require.Zero(t, r.ok("/v1/acquire", `{"upstream": "crm", "max_wait_ms": 100}`)["wait_ms"], "the permit is back")
	})
}

// If several releases come at once, one ends the call.
func TestReleaseOnce(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("headway.yaml", []byte(`upstreams: {crm: {policies: ["100000/s, burst 100000"]}}`))
	require.NoError(t, err)
	s, err := serve.Open(t.Context(), serve.Config{File: f, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for range 2000 {
		req := httptest.NewRequest(http.MethodPost, "/v1/acquire", strings.NewReader(`{"upstream": "crm"}`))
		req.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		s.API().ServeHTTP(answer, req)
		var out serve.AcquireReply
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &out))
		var all sync.WaitGroup
		var released atomic.Int64
		now := make(chan struct{})
		for range 4 {
			all.Go(func() {
				<-now
				if s.Release(out.Reservation) == nil {
					released.Add(1)
				}
			})
		}
		close(now)
		all.Wait()
		require.EqualValues(t, 1, released.Load())
	}
}

// A call is charged what it cost in the end.
func TestSettle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {policies: ["tokens: 1000 per window of 1h"]}`, nil)
		out := r.ok("/v1/acquire", `{"upstream": "crm", "costs": {"tokens": 500}}`)
		require.InDelta(t, 500, r.remaining("crm", ""), 0)
		settle := func(cost string) (int, map[string]any) {
			return r.call("/v1/settle", fmt.Sprintf(`{"reservation": %q, %s}`, out["reservation"], cost))
		}
		status, _ := settle(`"costs": {"other": 1}`)
		require.Equal(t, http.StatusBadRequest, status)
		status, _ = settle(`"costs": {"tokens": 120}`)
		require.Equal(t, http.StatusOK, status)
		require.InDelta(t, 880, r.remaining("crm", ""), 0)
		status, _ = settle(`"cost": 1`)
		require.Equal(t, http.StatusConflict, status)
	})
}

// One client's report holds for all, with or without the call that was answered.
func TestReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {policies: ["100/s, burst 10"]}
  hub: {profile: github, policies: ["100/s, burst 10, per token, optional"]}`, nil)
		out := r.ok("/v1/acquire", `{"upstream": "crm"}`)
		require.Empty(t, r.ok("/v1/report", fmt.Sprintf(`{"reservation": %q, "status": 429, "headers": {"retry-after": "60"}}`, out["reservation"])))
		require.Empty(t, r.ok("/v1/release", fmt.Sprintf(`{"reservation": %q}`, out["reservation"])))
		status, p := r.call("/v1/acquire", `{"upstream": "crm", "max_wait_ms": 1000}`)
		require.Equal(t, []any{http.StatusServiceUnavailable, "paused"}, []any{status, p["reason"]})
		require.InDelta(t, 60_000, p["retry_after_ms"], 0)

		require.Empty(t, r.ok("/v1/report", `{"upstream": "hub", "method": "post", "url": "https://api.github.com/graphql", "status": 403,
			"headers": {"Retry-After": "30"}, "body": "{\"message\": \"You have exceeded a secondary rate limit\"}"}`))
		_, p = r.call("/v1/acquire", `{"upstream": "hub", "max_wait_ms": 1000}`)
		require.Equal(t, "paused", p["reason"])
		require.Empty(t, r.ok("/v1/report", `{"upstream": "hub", "status": 200}`))
	})
}

// A client that goes away while it waits gives its slot back.
func TestAcquireGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {policies: ["1 per 10s"], jitter: none}`, nil)
		_ = r.ok("/v1/acquire", `{"upstream": "crm"}`)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost:1/v1/acquire", strings.NewReader(`{"upstream": "crm"}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		_, err = r.client.Do(req)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.InDelta(t, 8750, r.ok("/v1/acquire", `{"upstream": "crm", "wait": false}`)["wait_ms"], 0)
	})
}

// When the server stops, calls that wait are refused, and those that hold permits may still be released.
func TestStopWithCallsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {policies: ["1 in flight"]}`, nil)
		out := r.ok("/v1/acquire", `{"upstream": "crm"}`)
		var all sync.WaitGroup
		all.Go(func() {
			status, p := r.call("/v1/acquire", `{"upstream": "crm"}`)
			require.Equal(t, []any{http.StatusServiceUnavailable, "stopping"}, []any{status, p["reason"]})
		})
		time.Sleep(time.Second)
		r.stop()
		all.Wait()
		time.Sleep(10 * time.Second)
		status, _ := r.read("/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status)
		status, _ = r.read("/healthz")
		require.Equal(t, http.StatusOK, status)
		require.Empty(t, r.ok("/v1/release", fmt.Sprintf(`{"reservation": %q}`, out["reservation"])))
		since := elapsed()
		require.NoError(t, <-r.stopped)
		close(r.stopped)
		require.Less(t, since(), 2*time.Second)
	})
}

// A malformed request is refused with the reason.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {policies: ["9 per window of 1h", "fair: 9/s, per tenant, optional"]}`, nil)
		for _, want := range []struct {
			path, body string
			status     int
			detail     string
		}{
			{"acquire", ``, 400, "is not what /v1/openapi.json describes"},
			{"acquire", `[]`, 400, "is not what"},
			{"acquire", `{"upstream": "crm"} {}`, 400, "more than one JSON value"},
			{"acquire", `{"upstream": "crm", "maxwait": 1}`, 400, "maxwait"},
			{"acquire", `{"upstream": "crm", "cost": "1"}`, 400, "cost"},
			{"acquire", `{"upstream": "crm", "cost": 0}`, 400, "Cost"},
			{"acquire", `{"upstream": "crm", "cost": 10}`, 422, "can never start"},
			{"acquire", `{"upstream": "crm", "costs": {"other": 1}}`, 400, "other"},
			{"acquire", `{"upstream": "crm", "max_wait_ms": -1}`, 400, "max_wait_ms must be from 0"},
			{"acquire", `{"upstream": "crm", "max_wait_ms": 9e18}`, 400, "max_wait_ms"},
			{"acquire", `{"upstream": "crm", "timeout_ms": 3600001}`, 400, "timeout_ms must be"},
			{"acquire", `{"upstream": "crm", "early_ms": -1}`, 400, "early_ms must be"},
			{"acquire", `{"upstream": "crm", "attempt": -1}`, 400, "attempt must be"},
			{"acquire", `{"upstream": "other"}`, 404, "there are crm"},
			{"acquire", `{}`, 404, "there are crm"},
			{"acquire", `{"reservation": "b:crm:nonsense"}`, 404, "is not one of this upstream"},
			{"acquire", `{"reservation": "b:other:x"}`, 404, "there are crm"},
			{"acquire", `{"reservation": "h:x"}`, 404, "is none of a slot in the future"},
			{"acquire", `{"upstream": "` + strings.Repeat("x", 300<<10) + `"}`, 413, "longer than"},
			{"release", `{}`, 404, "no call under way"},
			{"release", `{"reservation": "b:crm:x"}`, 404, "is not one of this upstream"},
			{"settle", `{"reservation": "h:x"}`, 404, "no call under way"},
			{"report", `{"upstream": "crm"}`, 400, "status must be"},
			{"report", `{"upstream": "crm", "status": 429, "url": "/x"}`, 400, "url must be"},
			{"report", `{"reservation": "h:x", "status": 429}`, 404, "no call under way"},
		} {
			status, p := r.call("/v1/"+want.path, want.body)
			require.Equal(t, want.status, status, "%.200s: %v", want.body, p)
			require.Contains(t, p["detail"], want.detail, "%.200s", want.body)
		}
		resp, err := r.client.Post("http://localhost:1/v1/acquire", "text/plain", strings.NewReader(`{"upstream": "crm"}`))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusUnsupportedMediaType, resp.StatusCode, "as a form of a web page would send it")
		status, body := r.read("/v1/status?upstream=other")
		require.Equal(t, http.StatusNotFound, status, body)
		status, body = r.read("/v1/status?scope=tenant")
		require.Equal(t, http.StatusBadRequest, status, body)
		status, body = r.read("/v1/status")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, `"remaining":9`, "nothing was charged")
	})
}

// The status has what the callers that clients name have spent.
func TestCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["all: 100 per window of 1h"]}`, nil)
		_, _ = r.read("/v1/status") // from memory, what goes is counted from the first look on
		_, _ = r.get("/crm/x", "Headway-Caller", "sync/contacts", "Headway-Cost", "2")
		r.ok("/v1/acquire", `{"upstream": "crm", "caller": "desk"}`)
		r.ok("/v1/acquire", `{"upstream": "crm", "caller": "night", "wait": false}`)
		_, status := r.read("/v1/status")
		require.Contains(t, status, `"callers":[{"name":"sync/contacts","policy":"all","cost":2},{"name":"desk","policy":"all","cost":1},{"name":"night","policy":"all","cost":1}]`)
	})
}

// With a root, requests need not name it.
func TestAcquireRoot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, crm, nil, func(c *serve.Config) { c.Root = "crm" })
		require.Zero(t, r.ok("/v1/acquire", `{}`)["wait_ms"])
		require.InDelta(t, 9, r.remaining("crm", ""), 0)
	})
}

// Prometheus gets what the pacers do, and the requests.
func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["1 per window of 1h"]}`, nil)
		_, _ = r.get("/crm/x")
		_, _ = r.refused("/crm/x")
		_, _ = r.call("/v1/acquire", `{"upstream": "crm"}`)
		synctest.Wait()
		_, body := r.read("/metrics")
		for _, line := range []string{
			`headway_calls_total{headway_upstream="crm"} 1`,
			`headway_policy_remaining{headway_policy="fixed-1h",headway_upstream="crm"} 0`,
			`headway_serve_request_duration_seconds_count{by="proxy",code="200",upstream="crm"} 1`,
			`headway_serve_request_duration_seconds_count{by="proxy",code="503",upstream="crm"} 1`,
			`headway_serve_request_duration_seconds_count{by="api",code="503",upstream="crm"} 1`,
			`go_goroutines `,
		} {
			require.Contains(t, body, line)
		}
	})
}
