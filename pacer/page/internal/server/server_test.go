package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/page/internal/assets"
	"github.com/headway-go/headway/policies"
)

func TestMountPoints(t *testing.T) {
	t.Parallel()
	h := newHandler(t, newFake("zendesk"))
	mux := http.NewServeMux()
	mux.Handle("/pprof-like/", h)
	mux.Handle("/stripped/at/", http.StripPrefix("/stripped/at", h))
	mux.Handle("/exact", http.StripPrefix("/exact", h))
	mux.Handle("/exact/", http.StripPrefix("/exact", h))
	mux.Handle("/unstripped", h)
	root := http.NewServeMux()
	root.Handle("/", h)
	for _, one := range []struct {
		handler http.Handler
		at      string
	}{{mux, "/pprof-like/"}, {mux, "/stripped/at/"}, {mux, "/exact/"}, {root, "/"}, {h, "/"}} {
		w := get(one.handler, one.at)
		require.Equal(t, http.StatusOK, w.Code, one.at)
		require.Contains(t, w.Body.String(), "<title>Headway</title>", one.at)
		for name, data := range assets.All() {
			w := get(one.handler, one.at+name)
			require.Equal(t, http.StatusOK, w.Code, one.at+name)
			require.Equal(t, assets.TypeOf(name), w.Header().Get("Content-Type"), name)
			require.Equal(t, string(data), w.Body.String(), name)
		}
		require.Equal(t, http.StatusOK, get(one.handler, one.at+"fleet.json").Code)
		require.Equal(t, http.StatusNotFound, get(one.handler, one.at+"favicon.ico").Code)
	}
	for at, to := range map[string]string{
		"/exact": "./exact/", "/exact?upstream=a%20b": "./exact/?upstream=a%20b", "/unstripped": "./unstripped/",
	} {
		w := get(mux, at)
		require.Equal(t, http.StatusPermanentRedirect, w.Code, at)
		require.Equal(t, to, w.Header().Get("Location"), "relative: nobody knows what a proxy in front has cut off")
	}
}

// A page that loads anything from elsewhere, or runs what stands in it, breaks its own policy.
func TestFilesNeedNothingElse(t *testing.T) {
	t.Parallel()
	index := string(assets.All()["index.html"])
	require.NotContains(t, index, "://")
	require.NotContains(t, index, "style=")
	require.NotContains(t, index, " on")
	for name, data := range assets.All() {
		if strings.HasSuffix(name, ".js") && !strings.HasPrefix(name, "uPlot") {
			for _, word := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", `"style"`} {
				require.NotContains(t, string(data), word, name)
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	h := newHandler(t, newFake("zendesk"))
	for _, path := range []string{"/", "/app.js", "/fleet.json", "/fleet.json?upstream=other", "/nothing.here", "/elsewhere"} {
		w := get(h, path)
		require.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "+
			"frame-ancestors 'none'; base-uri 'none'; form-action 'self'", w.Header().Get("Content-Security-Policy"), path)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), path)
		require.Equal(t, "DENY", w.Header().Get("X-Frame-Options"), path)
	}
	require.Equal(t, "no-store", get(h, "/fleet.json").Header().Get("Cache-Control"))

	first := get(h, "/app.js")
	require.Equal(t, "no-cache", first.Header().Get("Cache-Control"))
	r := httptest.NewRequest(http.MethodGet, "/app.js", nil)
	r.Header.Set("If-None-Match", first.Header().Get("ETag"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusNotModified, w.Code)
}

func TestMethods(t *testing.T) {
	t.Parallel()
	f := newFake("zendesk")
	h := newHandler(t, f)
	for _, path := range []string{"/", "/app.js", "/events", "/fleet.json", "/act"} {
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, http.MethodTrace} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			require.Equal(t, http.StatusMethodNotAllowed, w.Code, "%s %s", method, path)
			require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
		status, body := post(h, path, "action=pause&for=1s")
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, body, "this page only shows")
	}
	for _, path := range []string{"/", "/events", "/fleet.json"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, path, nil))
		require.Equal(t, http.StatusOK, w.Code, path)
	}
}

func TestFleetJSON(t *testing.T) {
	t.Parallel()
	f := newFake("zendesk")
	f.all = []policies.Policy{policies.PerSecond(5).Per("tenant")}
	history := make([]pacer.Second, pacer.HistorySeconds)
	history[59] = pacer.Second{Cost: 20, Waits: 4, Waited: 2 * time.Second}
	f.fleet.PausedFor = 1500 * time.Millisecond
	f.fleet.Policies = []pacer.FleetPolicy{
		{PolicyStatus: pacer.PolicyStatus{Policy: policies.InFlight(25), Remaining: 5, Line: 3, Pace: 20}, Shown: true, Waiting: 3},
		{PolicyStatus: pacer.PolicyStatus{Policy: policies.PerSecond(4).Burst(2).Named("peak"), Next: 250 * time.Millisecond}, Shown: true, Waiting: 7, History: history},
		{PolicyStatus: pacer.PolicyStatus{Policy: f.all[0], Remaining: 99}, History: history},
		{PolicyStatus: pacer.PolicyStatus{Policy: policies.Daily(1000, time.UTC), Remaining: 12, Pace: 900}, Shown: true},
	}
	f.fleet.Busiest = []pacer.BusyKey{{PolicyStatus: pacer.PolicyStatus{Policy: f.all[0], Scope: "tenant=a%20b"}, Cost: 9, Waiting: 1}}
	f.fleet.Processes, f.fleet.Alive = []pacer.Process{{ID: "x", Name: "worker", For: time.Minute, Waiting: 2}}, 1
	f.fleet.Unknown = []string{"later: 5 per moon"}
	h := newHandler(t, f)

	w := get(h, "/fleet.json?upstream=zendesk&scope=tenant=acme")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var got struct {
		PausedFor float64
		Binding   string
		Alive     int
		Unknown   []string
		Policies  []struct {
			Name, Kind, Text                               string
			Scopes                                         []string
			Remaining, Limit, Waiting, Line                int64
			Next, Rate, Capacity, Utilization, Period, Was float64
			Shown                                          bool
			Cost, Waits                                    []int64
			Waited                                         []float64
		}
		Busiest []struct {
			Policy, Scope string
			Values        map[string]string
			Cost          int64
		}
		Processes []struct {
			Name string
			For  float64
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.InDelta(t, 1.5, got.PausedFor, 0)
	require.Equal(t, "peak", got.Binding)
	require.Equal(t, []string{"later: 5 per moon"}, got.Unknown)
	places, peak, tenant, daily := got.Policies[0], got.Policies[1], got.Policies[2], got.Policies[3]
	require.Equal(t, []any{"in flight", int64(5), int64(20), int64(3), int64(3)}, []any{places.Kind, places.Remaining, places.Limit, places.Waiting, places.Line})
	require.Equal(t, []any{"rate", int64(2), 0.25, 2.0, 4.0, 0.5, 1.0}, []any{peak.Kind, peak.Limit, peak.Next, peak.Rate, peak.Capacity, peak.Utilization, peak.Period})
	require.Equal(t, []any{int64(20), int64(4), 2.0}, []any{peak.Cost[59], peak.Waits[59], peak.Waited[59]})
	require.Equal(t, "peak: 4 per 1s, burst 2", peak.Text)
	require.Equal(t, []string{}, peak.Scopes)
	require.Equal(t, []string{"tenant"}, tenant.Scopes)
	require.Zero(t, tenant.Remaining, "of a policy that is not shown nothing is known")
	require.Equal(t, []any{"window", int64(900), 86400.0}, []any{daily.Kind, daily.Limit, daily.Period})
	require.Equal(t, map[string]string{"tenant": "a b"}, got.Busiest[0].Values)
	require.Equal(t, "tenant=a%20b", got.Busiest[0].Scope)
	require.InDelta(t, 60, got.Processes[0].For, 0)
}

func TestFleetJSONErrors(t *testing.T) {
	t.Parallel()
	f := newFake("zendesk")
	f.all = []policies.Policy{policies.PerSecond(5).Per("tenant")}
	h := newHandler(t, f, newFake("salesforce"))
	for target, want := range map[string]string{
		"/fleet.json?upstream=github":   `there is no upstream \"github\" here, but zendesk, salesforce`,
		"/events?upstream=github":       `there is no upstream \"github\" here`,
		"/fleet.json?scope=acme":        "must be a name and a value, such as tenant=acme",
		"/fleet.json?scope=tenant=":     "must be a name and a value",
		"/fleet.json?scope=tennant=a":   "no policy is per tennant",
		"/fleet.json?upstream=%3Cb%3E&": `there is no upstream \"\u003cb\u003e\" here`,
	} {
		w := get(h, target)
		require.GreaterOrEqual(t, w.Code, 400, target)
		require.Less(t, w.Code, 500, target)
		require.Contains(t, w.Body.String(), want, target)
	}
	f.fail(errStore)
	w := get(h, "/fleet.json")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.JSONEq(t, `{"error":"the store is on fire"}`, w.Body.String())
}
