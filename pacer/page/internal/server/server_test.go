package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	f.snapshot.PausedFor = 1500 * time.Millisecond
	want, err := json.Marshal(f.snapshot)
	require.NoError(t, err)
	w := get(newHandler(t, f), "/fleet.json?upstream=zendesk&scope=tenant=acme")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.JSONEq(t, string(want), w.Body.String())
	require.Contains(t, w.Body.String(), `"pausedSeconds":1.5`)
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
