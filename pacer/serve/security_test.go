package serve_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/serve"
)

// raw sends bytes to the proxy, and returns the answer until the server closes the connection or is silent for a minute.
func (r *rig) raw(text string) string { return r.rawTo(r.proxy, text) }

func (r *rig) rawTo(l *pipes, text string) string {
	r.t.Helper()
	conn, err := l.dial(r.t.Context(), "", "")
	require.NoError(r.t, err)
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }()
	require.NoError(r.t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	answer, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		require.ErrorIs(r.t, err, io.ErrClosedPipe)
	}
	return string(answer)
}

// A request is refused if servers could think differently about where it ends, or where it goes.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	const get = "GET /crm/a HTTP/1.1\r\nHost: localhost\r\n"
	const post = "POST /crm/a HTTP/1.1\r\nHost: localhost\r\n"
	for text, want := range map[string]string{
		// how long the body is
		post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd":                              "400",
		post + "Content-Length: 3, 4\r\n\r\nabcd":                                                "400",
		post + "Content-Length: +3\r\n\r\nabc":                                                   "400",
		post + "Content-Length: -3\r\n\r\nabc":                                                   "400",
		post + "Content-Length: 0x3\r\n\r\nabc":                                                  "400",
		post + "Content-Length: 99999999999999999999\r\n\r\nabc":                                 "400",
		post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n":                               "501",
		post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n":                           "501",
		post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":       "400",
		post + "Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n":                                    "501",
		post + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n":                                 "400",
		post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n":                                    "400",
		post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n1\r\nx\r\n0\r\n\r\n":      "400",
		post + "content-length: 4\ntransfer-encoding: chunked\n\n1\r\nx\r\n0\r\n\r\n":            "400",
		post + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd":                              "400",
		"POST /crm/a HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": "400",
		// what a field is
		get + "X: a\r\n b\r\n\r\n":                 "400",
		get + "X: a\r\n\tb: c\r\n\r\n":             "400",
		get + "X: a\r\n \r\n\r\n":                  "400",
		get + "Content-Length: \r\n 3\r\n\r\n":     "400",
		get + " X: a\r\n\r\n":                      "400",
		get + "X : a\r\n\r\n":                      "400",
		get + ": a\r\n\r\n":                        "400",
		get + "X\x00: a\r\n\r\n":                   "400",
		get + "X: a\x00b\r\n\r\n":                  "400",
		get + "X: a\rb\r\n\r\n":                    "400",
		get + "X\r\n\r\n":                          "400",
		get + "Host: other\r\n\r\n":                "400",
		"GET /crm/a HTTP/1.1\r\n\r\n":              "400",
		"GET /crm/a HTTP/1.1\r\nHost: a b\r\n\r\n": "400",
		// what is requested
		"GET /crm/a b HTTP/1.1\r\nHost: localhost\r\n\r\n":                  "400",
		"GET  /crm/a HTTP/1.1\r\nHost: localhost\r\n\r\n":                   "400",
		"GET /crm/a HTTP/9.9\r\nHost: localhost\r\n\r\n":                    "505",
		"G(T /crm/a HTTP/1.1\r\nHost: localhost\r\n\r\n":                    "400",
		"GET http://evil.example/crm/a HTTP/1.1\r\nHost: localhost\r\n\r\n": "403",
		"GET http://localhost/crm/a HTTP/1.1\r\nHost: localhost\r\n\r\n":    "400",
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n":      "403",
		"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n":         "400",
		"GET crm/a HTTP/1.1\r\nHost: localhost\r\n\r\n":                     "400",
		"GET /crm/../other HTTP/1.1\r\nHost: localhost\r\n\r\n":             "400",
		"GET /crm/%2e%2E/other HTTP/1.1\r\nHost: localhost\r\n\r\n":         "400",
		"GET /crm/a%2F..%2Fother HTTP/1.1\r\nHost: localhost\r\n\r\n":       "400",
		"GET /crm/..;x=1/other HTTP/1.1\r\nHost: localhost\r\n\r\n":         "400",
		"GET /crm/a%5C..%5Cother HTTP/1.1\r\nHost: localhost\r\n\r\n":       "400",
		"GET /crm/. HTTP/1.1\r\nHost: localhost\r\n\r\n":                    "400",
		"GET /crm/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n":                  "400",
		"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n":              "400",
	} {
		answer, count := "", 0
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, crm, nil)
			answer = r.raw(text)
			count = r.count()
		})
		if status := strings.TrimPrefix(strings.TrimPrefix(answer, "HTTP/1.1 "), "HTTP/1.0 "); !strings.HasPrefix(status, want) || count != 0 {
			t.Errorf("%q: %.120q, upstream %d, want %s", text, answer, count, want)
		}
	}
}

// A request is judged by where it begins, whatever came before it on the connection; and no byte of a body is changed.
func TestSmugglingBehindABody(t *testing.T) {
	t.Parallel()
	const fold = "GET /crm/b HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n"
	const head = "POST /crm/a HTTP/1.1\r\nHost: localhost\r\n"
	body := "\r\n" + fold + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, first := range []string{
		fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body),
		fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%X;x\r\n%s\r\n0\r\nX: y\r\n\r\n", head, len(body), body),
		strings.ReplaceAll(head, "\r\n", "\n") + "Expect: 100-continue\ncontent-LENGTH: " + strconv.Itoa(len(body)) + " \n\n" + body,
		fmt.Sprintf("%sTransfer-Encoding: Chunked\r\n\r\n1\r\n\r\r\n%x\r\n%s\r\n00\r\n\r\n", head, len(body)-1, body[1:]),
	} {
		synctest.Test(t, func(t *testing.T) {
			got := make(chan string, 9)
			r := newRig(t, crm, func(_ http.ResponseWriter, req *http.Request) {
				text, _ := io.ReadAll(req.Body)
				got <- string(text)
			})
			answer := r.raw(first + "GET /crm/c HTTP/1.1\r\nHost: localhost\r\n\r\n" + fold)
			require.Equal(t, 2, strings.Count(answer, "HTTP/1.1 200 OK"), "%q: %s", first, answer)
			require.Contains(t, answer, "HTTP/1.1 400 Bad Request")
			require.Equal(t, []string{body, ""}, []string{<-got, <-got})
			require.Equal(t, 2, r.count())
		})
	}
}

// Fields that are about one connection are not forwarded.
func TestHopByHopFields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, crm, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "X-Inner")
			w.Header().Set("X-Inner", "1")
			w.Header().Set("Keep-Alive", "timeout=5")
			w.Header().Set("Proxy-Authenticate", "Basic")
		})
		answer := r.raw("GET /crm/a HTTP/1.1\r\nHost: localhost\r\nConnection: close, X-Hop, Headway-Cost\r\nHeadway-Cost: 2\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nTE: trailers\r\n" +
			"Trailer: X\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\n\r\n")
		require.Contains(t, answer, "200 OK")
		require.NotContains(t, answer, "X-Inner")
		require.NotContains(t, answer, "Proxy-Authenticate")
		require.Equal(t, http.Header{"Te": {"trailers"}}, r.last().Header)
		require.InDelta(t, 8, r.remaining("crm", ""), 0, "what was said to the proxy counts")
	})
}

// The size and the slowness of a client's requests are bounded.
func TestSlowAndLargeRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, crm, func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodGet {
				w.Header().Set("Content-Length", strconv.Itoa(1<<20))
				_, _ = w.Write(make([]byte, 1<<20))
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				panic(http.ErrAbortHandler)
			}
		})
		since := elapsed()
		require.Empty(t, r.raw("GET /crm/a HTTP/1.1\r\nHost: loc"))
		require.Equal(t, 10*time.Second, since())

		since = elapsed()
		require.Contains(t, r.raw("GET /crm/a HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 70<<10)+"\r\n\r\n"), "431")
		require.Contains(t, r.raw("GET /crm/"+strings.Repeat("x", 70<<10)+" HTTP/1.1\r\nHost: localhost\r\n\r\n"), "431")
		require.Less(t, since(), 5*time.Second, "at once, but for a client that is to read the answer")

		since = elapsed()
		require.Contains(t, r.raw("POST /crm/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nshort"), "408", "a short body")
		require.InDelta(t, 30, since().Seconds(), 1)
		require.Zero(t, r.count())
		require.InDelta(t, 10, r.remaining("crm", ""), 0, "it took no slot")

		since = elapsed()
		require.Contains(t, r.raw("POST /crm/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"), "408", "a long one")
		require.InDelta(t, 30, since().Seconds(), 1)

		conn, err := r.proxy.dial(t.Context(), "", "")
		require.NoError(t, err)
		since = elapsed()
		_, err = io.WriteString(conn, "GET /crm/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		time.Sleep(time.Minute) // and reads nothing
		_, err = io.Copy(io.Discard, conn)
		require.NoError(t, err)
		require.Equal(t, time.Minute, since(), "the server has given up")
	})
}

// A refusal, and any other reply, does not wait for a body that does not come, nor for a client that reads nothing: also before it is known
// who the client is.
func TestStalledClients(t *testing.T) {
	t.Parallel()
	const stalled = " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nshort"
	for text, isAPI := range map[string]bool{
		"POST /other/x" + stalled: false, "POST /crm/.." + stalled: false, "POST /crm/x HTTP/1.1\r\nHeadway-Bad: 1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nshort": false,
		"POST /crm/x HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 9\r\n\r\nshort": false, "POST /v1/acquire HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 9\r\n\r\nshort": true,
		"POST /v1/acquire" + stalled: true, "GET /v1/status" + stalled: true, "GET /metrics" + stalled: true, "GET /healthz" + stalled: true, "GET /page/" + stalled: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, crm, nil)
			to := r.proxy
			if isAPI {
				to = r.api
			}
			since := elapsed()
			answer := r.rawTo(to, text)
			require.LessOrEqual(t, since(), 31*time.Second, "%.20q: %.30q", text, answer)

			conn, err := to.dial(t.Context(), "", "")
			require.NoError(t, err)
			_, err = io.WriteString(conn, strings.NewReplacer("Content-Length: 9\r\n", "", "short", "").Replace(text))
			require.NoError(t, err)
			time.Sleep(time.Minute)
			rest, _ := io.ReadAll(conn)
			require.Empty(t, string(rest), "the server has given up")
		})
	}
}

// A certificate that nobody vouches for is no upstream's.
func TestUpstreamsAreVerified(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was called") }))
	upstream.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer upstream.Close()
	f, err := config.Parse("headway.yaml", []byte(`upstreams: {crm: {url: "`+upstream.URL+`", policies: ["9/s, burst 9"]}}`))
	require.NoError(t, err)
	s, err := serve.Open(t.Context(), serve.Config{File: f, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	answer := httptest.NewRecorder()
	s.Proxy().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/crm/x", nil))
	require.Equal(t, http.StatusBadGateway, answer.Code)
	require.Contains(t, answer.Body.String(), "certificate")
}

// A credential is added to requests, in place of the client's, and is nowhere else.
func TestCredentials(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials.json")
	require.NoError(t, os.WriteFile(path, []byte(`{
		"crm": {"scope": "user", "header": "X-Key", "credentials": [{"id": "bot-1", "value": "sesame-1"}, {"id": "bot-2", "value": "sesame-2"}]},
		"one": {"credentials": [{"value": "Bearer sesame-3"}]}}`), 0o600))
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["2 per window of 1h, per user"]}
  one: {url: "http://one.example", policies: ["2 per window of 1h"]}`, func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("X-Fail") != "" {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusNoContent)
		}, func(c *serve.Config) { c.Credentials = path })
		used := make(map[string]int)
		for range 4 {
			_, _ = r.get("/crm/x", "X-Key", "mine")
			used[strings.Join(r.last().Header["X-Key"], "|")]++
		}
		require.Equal(t, map[string]int{"sesame-1": 2, "sesame-2": 2}, used)
		_, _ = r.get("/one/x?key=sesame-4", "Authorization", "Bearer sesame-5")
		require.Equal(t, []string{"Bearer sesame-3"}, r.last().Header["Authorization"])
		_, p := r.refused("/one/x?key=sesame-4", "X-Fail", "1", "Authorization", "Bearer sesame-5")
		require.Equal(t, serve.ReasonUpstream, p.Reason)
		out := r.ok("/v1/acquire", `{"upstream": "crm", "wait": false, "max_wait_ms": 7200000}`)
		require.Contains(t, out["reservation"], "b:crm:")

		shown := r.log.String() + p.Detail
		for _, path := range []string{"/v1/status", "/metrics", "/page/", "/page/fleet.json?upstream=crm"} {
			status, body := r.read(path)
			require.Equal(t, http.StatusOK, status, path)
			shown += body
		}
		require.NotContains(t, shown, "sesame")
		require.Contains(t, shown, "a request failed")
	})
}

// A credential goes to no host that only a pattern names: anyone may have a name below such a domain.
func TestCredentialsAndPatterns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"desk": {"credentials": [{"value": "sesame"}]},
		"many": {"scope": "user", "credentials": [{"id": "bot", "value": "sesame"}]}}`), 0o600))
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  desk: {hosts: ["*.desk.example"], policies: ["9/s, burst 9"]}
  many: {url: "http://a.example", hosts: [a.example, "*.many.example"], policies: ["9/s, burst 9, per user"]}`, nil, func(c *serve.Config) { c.Credentials = path })
		_, p := r.refused("/desk/x", "Headway-Host", "evil.desk.example")
		require.Contains(t, p.Detail, "without * if it has a credential")
		_, p = r.refused("/many/x", "Headway-Host", "evil.many.example")
		require.Contains(t, p.Detail, "names no host")
		require.Empty(t, r.dialed)
		_, _ = r.get("/many/x")
		require.Equal(t, []string{"sesame"}, r.last().Header["Authorization"])
	})
}

// A panic is logged as a bug, and ends its request only, whose permit is returned.
func TestPanicsAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := 2
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["1 in flight"]}`, nil, func(c *serve.Config) {
			base := c.Base
			c.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
				if left--; left >= 0 {
					panic("the base has a bug")
				}
				return base.RoundTrip(req)
			})
		})
		for range left {
			_, err := r.send(http.MethodPost, "/crm/x", nil, "Authorization", "sesame")
			require.ErrorIs(t, err, io.EOF)
		}
		resp, _ := r.get("/crm/x")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		synctest.Wait()
		require.Equal(t, 2, strings.Count(r.log.String(), `level=ERROR msg="headway serve: a bug" error="the base has a bug" stack=`), r.log.String())
		require.NotContains(t, r.log.String(), "sesame")
	})
}

// Names that clients choose are no labels of metrics, except those of callers: 100 at most.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["1000 per window of 1h", "9/s, burst 9, per tenant, optional"]}`, nil)
		_, _ = r.read("/v1/status") // from memory, what goes is counted from the first look on
		for i := range 150 {
			_, _ = r.get("/crm/sesame", "Headway-Caller", "caller-"+strconv.Itoa(i))
		}
		_, _ = r.send("SESAME", "/crm/x?sesame=1", nil, "Authorization", "sesame", "Headway-Scope", "tenant=sesame")
		_, _ = r.refused("/sesame/x")
		for _, body := range []string{`{"upstream": "sesame"}`, `{"reservation": "b:sesame:x"}`, `{"reservation": "h:sesame"}`, `{"upstream": "crm", "scopes": {"tenant": "sesame"}}`} {
			_, _ = r.call("/v1/acquire", body)
		}
		_, _ = r.call("/v1/release", `{"reservation": "b:sesame:x"}`)
		for _, query := range []string{"upstream=sesame", "upstream=sesame&scope=sesame", "upstream=crm&scope=tenant=sesame"} {
			_, _ = r.read("/v1/status?" + query)
		}
		synctest.Wait()
		_, metrics := r.read("/metrics")
		require.NotContains(t, strings.ToLower(metrics), "sesame")
		require.Equal(t, 100, strings.Count(metrics, `{headway_caller="caller-`), metrics)
	})
}

// A file of credentials that others can read, or that is not one, is refused without a word of it.
func TestBadCredentials(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("headway.yaml", []byte(`upstreams: {crm: {policies: ["9/s, per user"]}}`))
	require.NoError(t, err)
	for text, want := range map[string]string{
		`{"crm": {"credentials": [{"value": "sesame"}]}`:               "is not the JSON",
		`{"crm": {"secret": "sesame"}}`:                                "is not the JSON",
		`{"crm": {"credentials": [{"value": "sesame"}]}} {"many": {}}`: "is not the JSON",
		`{"crm": {"credentials": [{"id": "sesame"}]}}`:                 "each credential must have a value",
		`{"crm": null}`: "must have one credential",
		`{"crm": {"credentials": [{"value": "sesame"}, {"value": "sesame"}]}}`: "must have one credential",
		`{"sesame": {"credentials": [{"value": "sesame"}]}}`:                   "has an upstream that is not in the file",
		`{"sesame": {}}`: "must have one credential",
		`{"crm": {"scope": "team", "credentials": [{"id": "a", "value": "sesame"}]}}`:           "no policy of upstream",
		`{"crm": {"scope": "user", "credentials": [{"value": "sesame"}, {"value": "sesame"}]}}`: "Credential.ID",
	} {
		path := filepath.Join(t.TempDir(), "credentials.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := serve.Open(t.Context(), serve.Config{File: f, Credentials: path})
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "sesame")
		for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o444} {
			require.NoError(t, os.Chmod(path, mode))
			_, err = serve.Open(t.Context(), serve.Config{File: f, Credentials: path})
			require.ErrorContains(t, err, "can be read by others: chmod 600")
		}
		require.NoError(t, os.Chmod(path, 0o440), "as systemd's LoadCredential makes it")
		_, err = serve.Open(t.Context(), serve.Config{File: f, Credentials: path})
		require.ErrorContains(t, err, want, text)
	}
	_, err = serve.Open(t.Context(), serve.Config{File: f, Credentials: "/nowhere"})
	require.ErrorContains(t, err, "cannot be read")
}
