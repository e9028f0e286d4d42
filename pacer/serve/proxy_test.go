package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/serve"
)

const crm = `  crm: {url: "http://crm.example/base/", policies: ["10 per window of 1h"]}
`

// A request arrives as it was sent, without what is the proxy's, and goes to the upstream's address and host.
func TestProxyForwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, crm, func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			w.Header().Set("Trailer", "Checksum")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, strings.ToUpper(string(body)))
			w.Header().Set("Checksum", "7")
		})
		resp, err := r.send(http.MethodPost, "/crm/a%2Fb//c;d?q=1;2&%zz", strings.NewReader("body"), "Authorization", "Bearer x", "Headway-Scope", "tenant=acme",
			"Headway-Cost", "2", "Headway-Max-Wait", "1s", "Headway-Party", "batch", "X-Forwarded-For", "1.2.3.4", "Accept-Encoding", "zstd", "Expect", "100-continue")
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusCreated, resp.StatusCode)
		require.Equal(t, "BODY", string(body))
		require.Equal(t, "7", resp.Trailer.Get("Checksum"))

		req := r.last()
		require.Equal(t, "/base/a%2Fb//c;d?q=1;2&%zz", req.RequestURI)
		require.Equal(t, "crm.example", req.Host)
		require.Equal(t, http.Header{
			"Authorization": {"Bearer x"}, "Accept-Encoding": {"zstd"}, "Content-Length": {"4"}, "User-Agent": {"Go-http-client/1.1"},
		}, req.Header)
		require.Equal(t, []string{"crm.example:80"}, r.dialed)
		require.InDelta(t, 8, r.remaining("crm", ""), 0, "it cost 2")
	})
}

// Requests wait for their slots, in order.
func TestProxyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["1 per 1s"], jitter: none}`, nil)
		since := elapsed()
		for i := range 3 {
			_, body := r.get("/crm/x")
			require.Equal(t, "hello /x", body)
			require.Equal(t, time.Duration(i)*time.Second, since())
		}
	})
}

// A request whose slot is too far away is refused at once, with what a client needs to know, and is not charged.
func TestProxyRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, want := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
			r := newRig(t, `  crm: {url: "http://crm.example", policies: ["quota: 2 per window of 1h, per tenant"]}`, nil,
				func(c *serve.Config) { c.TooManyRequests = want == http.StatusTooManyRequests })
			_, _ = r.get("/crm/x", "Headway-Scope", "tenant=acme")
			_, _ = r.get("/crm/x", "Headway-Scope", "tenant=acme")
			since := elapsed()
			resp, p := r.refused("/crm/x", "Headway-Scope", "tenant=acme", "Headway-Max-Wait", "30")
			require.Zero(t, since())
			require.Equal(t, want, p.Status)
			require.Equal(t, serve.ReasonLimit, p.Reason)
			require.Equal(t, []string{"crm", "quota", "tenant=acme"}, []string{p.Upstream, p.Policy, p.Key})
			require.Contains(t, p.Detail, "try again then, or raise Headway-Max-Wait, or max_wait_ms of the API")
			require.Positive(t, p.RetryAfterMS)
			require.Equal(t, fmt.Sprint((p.RetryAfterMS+999)/1000), resp.Header.Get("Retry-After"))
			require.Equal(t, 2, r.count())

			time.Sleep(time.Duration(p.RetryAfterMS) * time.Millisecond)
			resp, _ = r.get("/crm/x", "Headway-Scope", "tenant=acme", "Headway-Max-Wait", "0s")
			require.Equal(t, http.StatusOK, resp.StatusCode, "it was not charged, and comes at the time that was said")

			_, p = r.refused("/crm/x", "Headway-Scope", "tenant=acme", "Headway-Cost", "3")
			require.Equal(t, []any{http.StatusUnprocessableEntity, serve.ReasonNever}, []any{p.Status, p.Reason})
			_, p = r.refused("/crm/x")
			require.Equal(t, []any{http.StatusBadRequest, serve.ReasonRequest}, []any{p.Status, p.Reason})
			require.Contains(t, p.Detail, "send Headway-Scope: tenant=VALUE")
		}
	})
}

// The fields set a call's options. A field that cannot be understood is refused, and not charged.
func TestFields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["all: 100 per window of 1h, per tenant, 50 % for lane batch", "tokens: 1000 per window of 1h"]}`, nil)
		resp, _ := r.get("/crm/x", "Headway-Scope", "tenant=a%2Cb, user=7", "Headway-Cost", "2, tokens=30", "Headway-Party", "batch", "Headway-Caller", "sync/contacts")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Empty(t, r.last().Header["Headway-Caller"])
		require.InDelta(t, 98, r.remaining("crm", "tenant=a%252Cb"), 0)
		for fields, want := range map[string]string{
			"Headway-Scope: tenant":                "must be a list such as tenant=acme",
			"Headway-Scope: tenant=":               "must be a list",
			"Headway-Scope: =acme":                 "must be a list",
			"Headway-Scope: tenant=%zz":            "must be a list",
			"Headway-Scope: tenant=a, tenant=b":    "must be a list",
			"Headway-Scope: tenant=a,":             "must be a list",
			"Headway-Cost: -1":                     "must be a number",
			"Headway-Cost: 1.5":                    "must be a number",
			"Headway-Cost: 1, 2":                   "must be a number",
			"Headway-Cost: =2":                     "must be a number",
			"Headway-Cost: 0":                      "Cost",
			"Headway-Cost: 9999999999999999999999": "must be a number",
			"Headway-Cost: other=1":                "other",
			"Headway-Max-Wait: soon":               "must be a duration",
			"Headway-Max-Wait: -1s":                "must be a duration",
			"Headway-Max-Wait: ":                   "must be there once",
			"Headway-Party: ":                      "must be there once",
			"Headway-Caller: ":                     "must be there once",
			"Headway-Callers: sync":                "no field has the name Headway-Callers",
			"Headway-Host: a, b":                   "names no host",
		} {
			name, value, _ := strings.Cut(fields, ": ")
			scope := []string{"Headway-Scope", "tenant=x"}
			if name == "Headway-Scope" {
				scope = nil
			}
			_, p := r.refused("/crm/x", append(scope, name, value)...)
			require.Contains(t, p.Detail, want, fields)
			require.Less(t, p.Status, 500, fields)
		}
		require.Equal(t, 1, r.count())
	})
}

// The upstream's profile reads scopes from the request.
func TestScopesOfTheProfile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  hub: {url: "http://hub.example", profile: github, policies: ["1 per window of 1h, per credential"]}`, nil)
		for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
			for _, token := range []string{"sesame-1", "sesame-2"} {
				resp, body := r.get("/hub/user", "Authorization", "Bearer "+token)
				require.Equal(t, want, resp.StatusCode, body)
				require.NotContains(t, body, token)
			}
		}
	})
}

// A client that goes away while it waits gives its slot back: the next one has it.
func TestClientGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["1 per 10s"], jitter: none}`, nil)
		since := elapsed()
		_, _ = r.get("/crm/x")
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/crm/gone", http.NoBody)
			require.NoError(t, err)
			_, err = r.client.Do(req)
			require.ErrorIs(t, err, context.Canceled)
		})
		time.Sleep(time.Second)
		synctest.Wait()
		leave()
		all.Wait()
		synctest.Wait()
		_, _ = r.get("/crm/next")
		require.Equal(t, 10*time.Second, since())
		require.Equal(t, 2, r.count())
	})
}

// A client may leave at any stage: its permit is back, the upstream's request ends, and an attempt that was not made is not charged.
func TestClientsLeaveAtAnyStage(t *testing.T) {
	t.Parallel()
	for _, two := range []bool{false, true} {
		for path, left := range map[string]float64{"/crm/body": 10, "/crm/sent": 9, "/crm/reply": 9, "/crm/refused": 9, "/crm/stream": 9} {
			synctest.Test(t, func(t *testing.T) {
				ended := 0
				r := newRig(t, `  crm: {url: "http://crm.example", policies: ["10 per window of 1h", "1 in flight"]}`, func(w http.ResponseWriter, req *http.Request) {
					switch req.URL.Path {
					case "/refused":
						w.Header().Set("Retry-After", "30")
						w.WriteHeader(http.StatusTooManyRequests)
						return
					case "/reply":
						_ = http.NewResponseController(w).Flush()
					case "/stream":
						_, _ = io.Copy(io.Discard, req.Body)
					case "/next":
						return
					}
					<-req.Context().Done()
					ended++
				})
				overTwo(r.client.Transport, two)
				ctx, leave := context.WithCancel(t.Context())
				var all sync.WaitGroup
				all.Go(func() {
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, http.NoBody)
					require.NoError(t, err)
					if path == "/crm/body" || path == "/crm/stream" {
						body, write := io.Pipe()
						go func() { _, _ = io.WriteString(write, "short") }()
						context.AfterFunc(ctx, func() { _ = write.CloseWithError(ctx.Err()) }) // for which net/http waits
						req.Body, req.ContentLength = body, map[bool]int64{true: 9, false: -1}[path == "/crm/body"]
					}
					resp, err := r.client.Do(req)
					if path == "/crm/reply" {
						require.NoError(t, err)
						_, err = io.Copy(io.Discard, resp.Body)
						require.NoError(t, resp.Body.Close())
					}
					require.ErrorIs(t, err, context.Canceled)
				})
				time.Sleep(time.Second)
				leave()
				all.Wait()
				synctest.Wait()
				require.InDelta(t, left, r.remaining("crm", ""), 0, path)
				require.Equal(t, path != "/crm/body" && path != "/crm/refused", ended == 1, path)
				resp, _ := r.get("/crm/next", "Headway-Max-Wait", map[bool]string{true: "1m", false: "0s"}[path == "/crm/refused"])
				require.Equal(t, http.StatusOK, resp.StatusCode, path)
			})
		}
	}
}

// Events, and both directions of a stream, pass as they come, over HTTP/1.1 and 2.
func TestStreams(t *testing.T) {
	t.Parallel()
	for _, two := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, crm, func(w http.ResponseWriter, req *http.Request) {
				control := http.NewResponseController(w)
				if req.ProtoMajor == 1 {
					_ = control.EnableFullDuplex()
				}
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Trailer", "Lines")
				_ = control.Flush()
				lines, n := bufio.NewScanner(req.Body), 0
				for ; lines.Scan(); n++ {
					_, _ = fmt.Fprintf(w, "data: %s\n\n", lines.Text())
					_ = control.Flush()
				}
				w.Header().Set("Lines", strconv.Itoa(n))
			}, func(c *serve.Config) { overTwo(c.Base, two) })
			overTwo(r.client.Transport, two)
			body, write := io.Pipe()
			var resp *http.Response
			started := make(chan error)
			go func() {
				var err error
				resp, err = r.send(http.MethodPost, "/crm/chat", body)
				started <- err
			}()
			require.NoError(t, <-started)
			events := bufio.NewReader(resp.Body)
			for _, line := range []string{"hello", "again"} {
				_, err := io.WriteString(write, line+"\n")
				require.NoError(t, err)
				event, err := events.ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, "data: "+line+"\n", event)
				_, err = events.ReadString('\n')
				require.NoError(t, err)
				time.Sleep(time.Hour) // nothing bounds how long a stream may last
			}
			require.NoError(t, write.Close())
			_, err := io.Copy(io.Discard, events)
			require.NoError(t, err)
			require.Equal(t, "2", resp.Trailer.Get("Lines"))
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 1+map[bool]int{true: 1}[two], r.last().ProtoMajor)
		})
	}
}

// overTwo makes a transport use HTTP/2 only, without TLS.
func overTwo(rt http.RoundTripper, two bool) {
	if two {
		base, _ := rt.(*http.Transport)
		base.Protocols = new(http.Protocols)
		base.Protocols.SetUnencryptedHTTP2(true)
	}
}

// A connection that changes its protocol is one of both directions.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["1 in flight"]}`, echo)
		conn := r.upgrade()
		time.Sleep(time.Hour)
		r.ping(conn)
		_, p := r.refused("/crm/x", "Headway-Max-Wait", "0s")
		require.Equal(t, serve.ReasonLimit, p.Reason, "it is in flight")
		require.NoError(t, conn.Close())
		synctest.Wait()
		require.InDelta(t, 1, r.remaining("crm", ""), 0)
	})
}

// echo is an upstream that changes the protocol of a connection.
func echo(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "websocket")
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.Copy(conn, buffered)
}

// upgrade returns a connection to it, and ping uses that.
func (r *rig) upgrade() io.ReadWriteCloser {
	resp, err := r.send(http.MethodGet, "/crm/socket", nil, "Connection", "Upgrade", "Upgrade", "websocket")
	require.NoError(r.t, err)
	require.Equal(r.t, http.StatusSwitchingProtocols, resp.StatusCode)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	require.True(r.t, ok)
	return conn
}

func (r *rig) ping(conn io.ReadWriter) {
	_, err := io.WriteString(conn, "ping")
	require.NoError(r.t, err)
	answer := make([]byte, 4)
	_, err = io.ReadFull(conn, answer)
	require.NoError(r.t, err)
	require.Equal(r.t, "ping", string(answer))
}

// When the server stops, an upgraded connection has as long as a request that was sent, and then ends.
func TestStopWithAnUpgrade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, crm, echo)
		conn := r.upgrade()
		since := elapsed()
		r.stop()
		time.Sleep(serve.Grace - time.Second)
		r.ping(conn)
		_, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.NoError(t, <-r.stopped)
		close(r.stopped)
		require.InDelta(t, serve.Grace.Seconds(), since().Seconds(), 1)
	})
}

// An upgrade to another protocol of requests would let them pass unseen. A server may ignore it, and this one does.
func TestUpgradeToHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, crm, nil)
		answer := r.raw("GET /crm/a HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
		require.Contains(t, answer, "200 OK")
		require.Empty(t, r.last().Header)
	})
}

// Trailers of requests arrive, over HTTP/1.1 and 2, with and without a credential, unless they were not announced, or are the proxy's.
func TestRequestTrailers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"crm": {"credentials": [{"value": "sesame"}]}}`), 0o600))
	for i := range 4 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, crm, func(_ http.ResponseWriter, req *http.Request) { _, _ = io.Copy(io.Discard, req.Body) }, func(c *serve.Config) {
				overTwo(c.Base, i%2 == 1)
				c.Credentials = map[bool]string{true: path}[i > 1]
			})
			want := http.Header{"Checksum": {"7"}}
			_ = r.raw("POST /crm/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: Checksum, Headway-Cost\r\n\r\n" +
				"1\r\nx\r\n0\r\nChecksum: 7\r\nHeadway-Cost: 9\r\nHeadway-Host: x\r\nContent-Length: 5\r\n\r\n")
			require.Equal(t, want, r.last().Trailer)
			overTwo(r.client.Transport, i%2 == 1)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/crm/a", io.MultiReader(strings.NewReader("x")))
			require.NoError(t, err)
			req.Trailer = http.Header{"Checksum": {"7"}, "Headway-Cost": {"9"}}
			resp, err := r.client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, r.last().Trailer)
			resp, _ = r.get("/crm/a", "Trailer", "Checksum") // without a body
			require.Equal(t, http.StatusOK, resp.StatusCode)
		})
	}
}

// Trailers of a short body arrive with each attempt, also where HTTP/1.1 has to send the body in chunks for that.
func TestTrailersAreRepeated(t *testing.T) {
	t.Parallel()
	for _, two := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			got := make(chan string, 9)
			r := newRig(t, crm, func(w http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				got <- fmt.Sprint(string(body), req.Trailer)
				if len(got) == 1 {
					w.Header().Set("Retry-After", "5")
					w.WriteHeader(http.StatusTooManyRequests)
				}
			}, func(c *serve.Config) { overTwo(c.Base, two) })
			overTwo(r.client.Transport, true)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/crm/a", strings.NewReader("x"))
			require.NoError(t, err)
			req.Trailer = http.Header{"Checksum": {"7"}}
			resp, err := r.client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, []string{"xmap[Checksum:[7]]", "xmap[Checksum:[7]]"}, []string{<-got, <-got})
		})
	}
}

// A request is refused whose target, as HTTP/2 carries it, would be two words of a line of HTTP/1.1.
func TestSpacesInTheTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, crm, nil)
		overTwo(r.client.Transport, true)
		_, p := r.refused("/crm/a?b HTTP/1.1")
		require.Equal(t, http.StatusBadRequest, p.Status)
		_, body := r.get("/crm/a b?c")
		require.Equal(t, "hello /base/a%20b?c", body)
	})
}

// A connection of HTTP/2 has a bounded number of requests, and those that are reset give their slots back.
func TestResets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", maxWait: forever, policies: ["1 per window of 1h"]}`, nil)
		overTwo(r.client.Transport, true)
		_, _ = r.get("/crm/x")
		ctx, reset := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 1001 {
			if i == 1000 {
				synctest.Wait()
				require.EqualValues(t, 1, r.proxy.dialed.Load())
			}
			all.Go(func() {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/crm/x", http.NoBody)
				require.NoError(t, err)
				_, err = r.client.Do(req)
				require.ErrorIs(t, err, context.Canceled)
			})
		}
		synctest.Wait()
		require.EqualValues(t, 2, r.proxy.dialed.Load())
		_, body := r.read("/v1/status")
		require.Contains(t, body, `"waiting":1001`)
		reset()
		all.Wait()
		synctest.Wait()
		_, body = r.read("/v1/status")
		require.NotContains(t, body, `"waiting":1`)
		time.Sleep(time.Hour)
		require.InDelta(t, 1, r.remaining("crm", ""), 0)
		require.Equal(t, 1, r.count())
	})
}

// A long body stays with the client while its request waits, over HTTP/2 too.
func TestBodiesWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", maxWait: forever, policies: ["1 per window of 1h"]}`, nil)
		overTwo(r.client.Transport, true)
		_, _ = r.get("/crm/x")
		ctx, leave := context.WithCancel(t.Context())
		var sent atomic.Int64
		var all sync.WaitGroup
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/crm/x", io.TeeReader(endless{}, counter{&sent}))
			require.NoError(t, err)
			_, err = r.client.Do(req)
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		leave()
		all.Wait()
		require.LessOrEqual(t, sent.Load(), int64(600<<10), "the client itself reads 512 KiB at once")
	})
}

// endless is a body without an end.
type endless struct{}

// Read implements [io.Reader].
func (endless) Read(p []byte) (int, error) { return len(p), nil }

// counter counts what is written to it.
type counter struct{ n *atomic.Int64 }

// Write implements [io.Writer].
func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// A refused request is repeated with its body, if that is short; of a long one, or one of unknown length, nothing is kept.
func TestBodiesAreRepeated(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{64 << 10: http.StatusOK, 64<<10 + 1: http.StatusTooManyRequests, 9: http.StatusTooManyRequests} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var sizes []int
			r := newRig(t, crm, func(w http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				mu.Lock()
				defer mu.Unlock()
				if sizes = append(sizes, len(body)); len(sizes) == 1 {
					w.Header().Set("Retry-After", "5")
					w.WriteHeader(http.StatusTooManyRequests)
				}
			})
			since := elapsed()
			var body io.Reader = strings.NewReader(strings.Repeat("x", size))
			if size == 9 {
				body = io.MultiReader(body) // of unknown length
			}
			resp, err := r.send(http.MethodPost, "/crm/x", body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.StatusCode)
			mu.Lock()
			defer mu.Unlock()
			if want == http.StatusOK {
				require.Equal(t, []int{size, size}, sizes)
				require.GreaterOrEqual(t, since(), 5*time.Second)
			} else {
				require.Equal(t, []int{size}, sizes)
				require.Equal(t, "5", resp.Header.Get("Retry-After"), "as the upstream sent it")
			}
		})
	}
}

// The upstream's profile reads each reply: its feedback holds for all clients.
func TestRepliesAreHeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["100/s, burst 10"]}`, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		resp, _ := r.get("/crm/x", "Headway-Max-Wait", "1s")
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		_, p := r.refused("/crm/y", "Headway-Max-Wait", "1s")
		require.Equal(t, serve.ReasonPaused, p.Reason)
		require.Equal(t, 1, r.count())
	})
}

// When the server stops, requests that wait are refused and give their slots back, and those that were sent are answered.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  crm: {url: "http://crm.example", policies: ["1 per 10s"], jitter: none}`, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(5 * time.Second)
			_, _ = io.WriteString(w, "done")
		})
		var all sync.WaitGroup
		all.Go(func() {
			resp, body := r.get("/crm/x")
			require.Equal(t, []any{http.StatusOK, "done"}, []any{resp.StatusCode, body})
		})
		time.Sleep(time.Second)
		all.Go(func() {
			resp, p := r.refused("/crm/x")
			require.Equal(t, []any{http.StatusServiceUnavailable, serve.ReasonStopping}, []any{p.Status, p.Reason})
			require.Equal(t, "1", resp.Header.Get("Retry-After"))
		})
		time.Sleep(time.Second)
		status, _ := r.read("/readyz")
		require.Equal(t, http.StatusOK, status)
		since := elapsed()
		r.stop()
		require.NoError(t, <-r.stopped)
		close(r.stopped)
		require.InDelta(t, 3.5, since().Seconds(), 0.5, "when the request that was sent is over, at which net/http looks twice a second")
		all.Wait()
		require.Equal(t, 1, r.count())
	})
}

// A redirect is the client's to follow. One within the upstream leads through the proxy again.
func TestRedirects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for location, want := range map[string]string{
			"/base/b%2Fc?d=e#f":            "/crm/b%2Fc?d=e#f",
			"c":                            "/crm/c",
			"http://crm.example/base/b":    "/crm/b",
			"/other":                       "/other",
			"http://crm.example/based":     "http://crm.example/based",
			"http://crm.example/base//x/y": "http://crm.example/base//x/y",
			"https://crm.example/base/b":   "https://crm.example/base/b",
			"http://evil.example/base/b":   "http://evil.example/base/b",
			"//evil.example/base/b":        "//evil.example/base/b",
			"http://u@crm.example/base/b":  "http://u@crm.example/base/b",
		} {
			r := newRig(t, crm, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", location)
				w.WriteHeader(http.StatusFound)
			})
			resp, _ := r.get("/crm/a")
			require.Equal(t, []any{http.StatusFound, want}, []any{resp.StatusCode, resp.Header.Get("Location")}, location)
			require.Equal(t, []string{"crm.example:80"}, r.dialed)
		}
	})
}

// With a root, paths have no prefix.
func TestRoot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, crm, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/base/b") },
			func(c *serve.Config) { c.Root = "crm" })
		resp, _ := r.get("/crm/a")
		require.Equal(t, "/b", resp.Header.Get("Location"))
		require.Equal(t, "/base/crm/a", r.last().RequestURI)
	})
}

// An upstream of many hosts has the one that a request names.
func TestHosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `  desk: {hosts: ["*.desk.example"], policies: ["9/s, burst 9"]}
  many: {hosts: [a.example, "b.example:8443", "*.c.example"], policies: ["9/s, burst 9"]}
  none: {policies: ["9/s"]}
  one: {url: "http://one.example", policies: ["9/s"]}`, nil)
		r.deaf.Store(true)
		for _, want := range []struct {
			path, host, problem, dialed string
		}{
			{path: "/desk/x", problem: "has no single address: set Headway-Host to one of its hosts, *.desk.example"},
			{path: "/desk/x", host: "acme.desk.example", dialed: "acme.desk.example:443"},
			{path: "/desk/x", host: "ACME.desk.example", dialed: "acme.desk.example:443"},
			{path: "/desk/x", host: ".desk.example", problem: "names no host"},
			{path: "/desk/x", host: "desk.example", problem: "names no host"},
			{path: "/desk/x", host: "evil.example/.desk.example", problem: "names no host"},
			{path: "/desk/x", host: "user@a.desk.example", problem: "names no host"},
			{path: "/desk/x", host: "a.desk.example:22", problem: "names no host"},
			{path: "/many/x", dialed: "a.example:443"},
			{path: "/many/x", host: "b.example:8443", dialed: "b.example:8443"},
			{path: "/many/x", host: "b.example", problem: "names no host"},
			{path: "/many/x", host: "x.desk.example", problem: "names no host"},
			{path: "/none/x", problem: "has no address"},
			{path: "/one/x", host: "a.example", problem: "it has none, so leave the field out"},
			{path: "/other/x", problem: "names none of the upstreams: there are desk, many, none, one"},
			{path: "/", problem: "names none of the upstreams"},
		} {
			var fields []string
			if want.host != "" {
				fields = []string{"Headway-Host", want.host}
			}
			r.dialed = nil
			_, p := r.refused(want.path, fields...) // also for those that are dialed
			if want.problem != "" {
				require.Contains(t, p.Detail, want.problem, "%v", want)
				require.Empty(t, r.dialed)
			} else {
				require.Equal(t, serve.ReasonUpstream, p.Reason)
				require.Equal(t, want.dialed, r.dialed[0], "%v", want)
			}
		}
	})
}
