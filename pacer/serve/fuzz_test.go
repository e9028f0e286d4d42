package serve_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/serve"
)

// openFuzzed returns a server for an upstream whose requests end in rt.
func openFuzzed(f *testing.F, rt http.RoundTripper) *serve.Server {
	f.Helper()
	file, err := config.Parse("headway.yaml", []byte(`upstreams: {crm: {url: "http://crm.example/base", maxWait: 1ms, policies: ["1000000/s, burst 1000000", "t: 1000000/s, burst 1000, per tenant, optional"]}}`))
	require.NoError(f, err)
	s, err := serve.Open(f.Context(), serve.Config{File: file, Base: rt, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(f, err)
	f.Cleanup(func() { _ = s.Close() })
	return s
}

// roundTripper is a function as an [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A request with any path and fields goes to the upstream's address or nowhere, without these fields.
func FuzzFields(f *testing.F) {
	for _, one := range [][4]string{
		{"/crm/x", "Headway-Scope", "tenant=acme, user=7", "GET"}, {"/crm/a%2f..%2f?q=%zz", "Headway-Cost", "3, tokens=5", "POST"},
		{"//crm//evil.example/x", "Headway-Max-Wait", "30s", "PUT"}, {"/crm/%2e%2e/x", "Headway-Host", "crm.example@evil.example", "GET"},
		{"/crm/x", "Headway-Party", "batch", "DELETE"}, {"/crm", "Connection", "Headway-Cost", "GET"}, {"/crm;x/y", "Host", "evil.example", "GET"},
	} {
		f.Add(one[0], one[1], one[2], one[3])
	}
	var went *http.Request
	s := openFuzzed(f, roundTripper(func(req *http.Request) (*http.Response, error) {
		went = req
		return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), Body: http.NoBody, Request: req}, nil
	}))
	f.Fuzz(func(t *testing.T, path, name, value, method string) {
		var raw bytes.Buffer
		_, _ = raw.WriteString(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + name + ": " + value + "\r\n\r\n")
		req, err := http.ReadRequest(bufio.NewReader(&raw))
		if err != nil {
			return
		}
		went = nil
		answer := httptest.NewRecorder()
		s.Proxy().ServeHTTP(answer, req)
		if went == nil {
			require.GreaterOrEqual(t, answer.Code, 400)
			require.Equal(t, "application/problem+json", answer.Header().Get("Content-Type"))
			require.True(t, json.Valid(answer.Body.Bytes()))
			return
		}
		require.Equal(t, "http://crm.example", went.URL.Scheme+"://"+went.URL.Host)
		require.Empty(t, went.Host)
		require.True(t, strings.HasPrefix(went.URL.EscapedPath(), "/base/"), went.URL.EscapedPath())
		for name := range went.Header {
			require.False(t, strings.HasPrefix(name, "Headway-"), name)
		}
	})
}

// The API answers anything with JSON, and never with a fault of the server.
func FuzzAPI(f *testing.F) {
	for _, one := range [][2]string{
		{"acquire", `{"upstream": "crm", "scopes": {"tenant": "acme"}, "cost": 2, "costs": {"t": 3}, "max_wait_ms": 5, "party": "batch", "wait": false}`},
		{"acquire", `{"reservation": "b:crm:x", "attempt": 2, "early_ms": 1, "timeout_ms": 1}`}, {"release", `{"reservation": "h:x", "unused": true}`},
		{"settle", `{"reservation": "h:x", "cost": -1}`}, {"report", `{"upstream": "crm", "status": 429, "url": "http://%zz", "headers": {"Retry-After": "1"}, "body": "x"}`},
		{"acquire", `{"upstream": "crm"} x`}, {"acquire", `[[[[`},
	} {
		f.Add(one[0], one[1])
	}
	s := openFuzzed(f, http.DefaultTransport)
	f.Fuzz(func(t *testing.T, path, body string) {
		switch path {
		case "acquire", "release", "settle", "report":
		default:
			path = "acquire"
		}
		req := httptest.NewRequest(http.MethodPost, "/v1/"+path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		s.API().ServeHTTP(answer, req)
		require.True(t, json.Valid(answer.Body.Bytes()), answer.Body.String())
		if answer.Code != http.StatusOK {
			var p serve.Problem
			require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &p))
			require.NotContains(t, []string{serve.ReasonStore, serve.ReasonUpstream, ""}, p.Reason, "%s", body)
		}
	})
}

// Of anything that arrives on a connection, each request that the upstream gets is one that its client gets an answer to, and nothing in it
// is a second request.
func FuzzConnection(f *testing.F) {
	const head = "Host: localhost\r\n"
	for _, one := range []string{
		"GET /crm/a HTTP/1.1\r\n" + head + "\r\n",
		"POST /crm/a HTTP/1.1\r\n" + head + "Content-Length: 5\r\n\r\nhelloGET /crm/b HTTP/1.1\r\n" + head + "\r\n",
		"POST /crm/a HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\nGET /crm/evil HTTP/1.1\r\n" + head + "\r\n",
		"POST /crm/a HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\n\r\n5;x=\"\r\n\"\r\nhello\r\n0\r\nHeadway-Cost: 1\r\n\r\n",
		"GET /crm/a HTTP/1.1\r\n" + head + "X: a\r\n b: c\r\n\r\n",
		"GET /crm/a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		f.Add([]byte(one))
	}
	upstream := newPipes()
	requests := make(chan string, 100)
	go func() { _ = http.Serve(upstream, recorder(requests)) }()
	f.Cleanup(func() { _ = upstream.Close() })
	s := openFuzzed(f, &http.Transport{DialContext: upstream.dial, DisableCompression: true, DisableKeepAlives: true})
	proxy := newPipes()
	server := &http.Server{Handler: s.Proxy(), ReadHeaderTimeout: time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = server.Serve(serve.NewListener(proxy, "", 0)) }()
	f.Cleanup(func() { _ = server.Close() })
	f.Fuzz(func(t *testing.T, sent []byte) {
		conn, err := proxy.dial(t.Context(), "", "")
		require.NoError(t, err)
		defer conn.Close()
		go func() {
			_, _ = conn.Write(sent)
			_, _ = conn.Write([]byte("\r\n\r\n\r\n\r\n"))
		}()
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) //realtime: silence is the end of the answers; it judges nothing
		answers, _ := io.ReadAll(conn)
		n := 0
		for drained := false; !drained; {
			select {
			case got := <-requests:
				n++
				require.NotContains(t, got, "\nHeadway-")
				require.Contains(t, got, "crm.example", "the host is the upstream's")
			default:
				drained = true
			}
		}
		require.LessOrEqual(t, n, bytes.Count(answers, []byte("HTTP/1."))+1, "one may still be on its way")
	})
}

// A parsed request is one that net/http has read, and its bytes.
type parsed struct {
	Method, URI, Body string
	Header, Trailer   http.Header
	head, raw         string
}

// parse returns the requests in the bytes of a connection, until the first one that is malformed.
func parse(sent []byte) (all []parsed) {
	rest := bytes.NewReader(sent)
	in := bufio.NewReader(rest)
	for from := 0; ; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return all
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return all
		}
		to := len(sent) - rest.Len() - in.Buffered()
		raw := string(sent[from:to])
		head := regexp.MustCompile(`(?s)^.*?\n\r?\n`).FindString(raw)
		all = append(all, parsed{req.Method, req.RequestURI, string(body), req.Header, req.Trailer, head, raw})
		from = to
	}
}

var (
	folded  = regexp.MustCompile(`\n[ \t]`)
	framing = regexp.MustCompile(`(?i)\n(content-length|transfer-encoding):`)
	coded   = regexp.MustCompile(`(?i)\.0\r?\n(?s:.*\n)?transfer-encoding:`)
)

// Of any requests on a connection, net/http reads each as it was sent, up to the first one that has a folded field, or two fields about its
// length.
func FuzzFraming(f *testing.F) {
	const get, post = "GET /a HTTP/1.1\r\nHost: localhost\r\n", "POST /b HTTP/1.1\r\nHost: localhost\r\n"
	for _, one := range []string{
		get + "X: a\r\n b\r\n\r\n", get + "\r\n" + get + "X:\n\ty: z\n\n", post + "Content-Length: 3\r\n\r\n\n a" + get + "\r\n",
		post + "Content-Length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "PUT / HTTP/1.0\nTransfer-Encoding: chunked\n\n" + get + "\r\n",
		post + "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\n\n a\r\n0\r\n\r\n" + post + "Content-Length: 2\r\ncontent-length: 2\r\n\r\nab",
		post + "Transfer-Encoding: chunked\r\n\r\n0a \r\n0123456789\r\n000\r\nContent-Length: 7\r\nX: y\r\n z\r\n\r\n" + get + "\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add([]byte(one), uint8(len(one)))
	}
	f.Fuzz(func(t *testing.T, sent []byte, piece uint8) {
		want, follow, followed := parse(sent), serve.Follow(), bytes.Clone(sent)
		for part := range slices.Chunk(followed, int(piece)+1) {
			follow(part)
		}
		got := parse(followed)
		isRefused := func(one *parsed) bool {
			return folded.MatchString(one.head) || len(framing.FindAllString(one.head, 2)) > 1 || coded.MatchString(one.head)
		}
		for i := range want {
			if i == len(got) {
				foldedTrailer := len(want[i].Trailer) > 0 && folded.MatchString(want[i].raw)
				require.True(t, isRefused(&want[i]) || foldedTrailer, "%q", want[i].raw)
				return
			}
			require.Equal(t, want[i], got[i])
			require.False(t, isRefused(&got[i]), "%q", got[i].raw)
		}
		require.Len(t, got, len(want))
	})
}

// recorder is an upstream that notes what it gets.
func recorder(requests chan string) http.HandlerFunc {
	return func(_ http.ResponseWriter, req *http.Request) {
		var got bytes.Buffer
		_, _ = got.WriteString(req.Method + " " + req.Host + " " + req.RequestURI + "\n")
		_ = req.Header.Write(&got)
		select {
		case requests <- got.String():
		default:
		}
	}
}
