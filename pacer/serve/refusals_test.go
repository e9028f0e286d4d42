package serve_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/serve"
)

// problem requires that a request, to the proxy or the API, is refused in the one form of refusals, and returns it.
func (r *rig) problem(method, url string, body io.Reader, fields ...string) (http.Header, serve.Problem) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, url, body)
	require.NoError(r.t, err)
	if body, ok := body.(io.Closer); ok {
		defer body.Close()
		req.ContentLength = 9
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := r.client.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	require.Equal(r.t, "application/problem+json", resp.Header.Get("Content-Type"), "%s %s: %s", method, url, text)
	var p serve.Problem
	require.NoError(r.t, json.Unmarshal(text, &p))
	require.Equal(r.t, []any{resp.StatusCode, http.StatusText(resp.StatusCode)}, []any{p.Status, p.Title})
	require.NotEmpty(r.t, p.Detail)
	require.Equal(r.t, p.RetryAfterMS > 0, resp.Header.Get("Retry-After") != "")
	return resp.Header, p
}

// Each refusal has the same form and content over HTTP/1.1 and 2.
func TestRefusalsHaveOneForm(t *testing.T) {
	t.Parallel()
	const proxy, api = "http://localhost", "http://localhost:1"
	var answers [2][]string
	for i := range answers {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, `  crm: {url: "http://crm.example", maxWait: 30s, policies: ["1 per window of 1h"]}
  down: {url: "http://down.example", policies: ["9/s, burst 9"]}`, func(_ http.ResponseWriter, req *http.Request) {
				if req.Host == "down.example" {
					panic(http.ErrAbortHandler)
				}
			})
			overTwo(r.client.Transport, i == 1)
			resp, _ := r.get("/crm/x")
			require.Equal(t, 1+i, resp.ProtoMajor)
			stalled, write := io.Pipe()
			go func() { _, _ = io.WriteString(write, "short") }()
			for _, one := range []struct {
				method, url string
				body        io.Reader
				fields      string
				status      int
				reason      string
			}{
				{http.MethodGet, proxy + "/crm/x", nil, "", 503, serve.ReasonLimit},
				{http.MethodPost, proxy + "/crm/x", strings.NewReader("x"), "Headway-Cost: 2", 422, serve.ReasonNever},
				{http.MethodGet, proxy + "/crm/x", nil, "Headway-Cost: much", 400, serve.ReasonRequest},
				{http.MethodGet, proxy + "/crm/..", nil, "", 400, serve.ReasonRequest},
				{http.MethodConnect, proxy + "/crm/x", nil, "", 400, serve.ReasonRequest},
				{http.MethodGet, proxy + "/other/x", nil, "", 404, serve.ReasonRequest},
				{http.MethodGet, proxy + "/crm/x", nil, "Origin: https://evil.example", 403, serve.ReasonRequest},
				{http.MethodPost, api + "/v1/acquire", strings.NewReader(`{"upstream": "crm"}`), "Content-Type: application/json", 503, serve.ReasonLimit},
				{http.MethodPost, api + "/v1/acquire", strings.NewReader("{"), "Content-Type: application/json", 400, serve.ReasonRequest},
				{http.MethodPost, api + "/v1/acquire", strings.NewReader("{}"), "Content-Type: text/plain", 415, serve.ReasonRequest},
				{http.MethodGet, api + "/v1/acquire", nil, "", 405, serve.ReasonRequest},
				{http.MethodGet, api + "/v2/acquire", nil, "", 404, serve.ReasonRequest},
				{http.MethodGet, api + "/v1/status", nil, "Origin: https://evil.example", 403, serve.ReasonRequest},
				{http.MethodPost, proxy + "/crm/x", stalled, "", 408, serve.ReasonRequest},
				{http.MethodGet, proxy + "/down/x", nil, "", 502, serve.ReasonUpstream},
			} {
				var fields []string
				if name, value, ok := strings.Cut(one.fields, ": "); ok {
					fields = []string{name, value}
				}
				header, p := r.problem(one.method, one.url, one.body, fields...)
				require.Equal(t, []any{one.status, one.reason}, []any{p.Status, p.Reason}, "%s %s: %s", one.method, one.url, p.Detail)
				header.Del("Date")
				header.Del("Connection")
				answers[i] = append(answers[i], fmt.Sprint(header, p))
			}
			var all sync.WaitGroup
			all.Go(func() {
				_, p := r.problem(http.MethodGet, proxy+"/crm/x", nil, "Headway-Max-Wait", "2h")
				require.Equal(t, []any{503, serve.ReasonStopping}, []any{p.Status, p.Reason})
			})
			synctest.Wait()
			r.stop()
			all.Wait()
		})
	}
	require.Equal(t, answers[0], answers[1])
}

// A reply to HEAD has the length of the body that it does not have, also as a refusal, and the connection goes on.
func TestHead(t *testing.T) {
	t.Parallel()
	for _, two := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, `  crm: {url: "http://crm.example", policies: ["2 per window of 1h"]}`, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
			})
			overTwo(r.client.Transport, two)
			for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusServiceUnavailable} {
				resp, err := r.send(http.MethodHead, "/crm/x", nil)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, want, resp.StatusCode)
				if want == http.StatusOK {
					require.EqualValues(t, 1000, resp.ContentLength)
				} else {
					require.Positive(t, resp.ContentLength)
					require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
				}
			}
			require.Equal(t, http.MethodHead, r.last().Method)
			require.EqualValues(t, 1, r.proxy.dialed.Load())
		})
	}
}

// A client that expects 100 Continue sends its body when the request has its slot, and not at all if it is refused.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["1 per 10s"], jitter: none}`, func(w http.ResponseWriter, req *http.Request) {
			n, _ := io.Copy(io.Discard, req.Body)
			_, _ = fmt.Fprint(w, n, " bytes")
		})
		_, _ = r.get("/crm/x")
		since := elapsed()
		const post = "POST /crm/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 100000\r\nConnection: close\r\n"
		answer := r.raw(post + "Headway-Max-Wait: 1s\r\n\r\n")
		require.True(t, strings.HasPrefix(answer, "HTTP/1.1 503 "), answer)
		conn, err := r.proxy.dial(t.Context(), "", "")
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, post+"\r\n")
		require.NoError(t, err)
		interim := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
		_, err = io.ReadFull(conn, interim)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 100 Continue\r\n\r\n", string(interim))
		require.Equal(t, 10*time.Second, since())
		_, err = io.WriteString(conn, strings.Repeat("x", 100_000))
		require.NoError(t, err)
		rest, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Contains(t, string(rest), "100000 bytes")
	})
}
