package serve_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/serve"
)

// token is one that is long enough.
const token = "0123456789abcdef0123456789abcdef"

// writeCert writes a certificate for localhost and its key.
func writeCert(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(cert, certPEM, 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return cert, key, roots
}

// An address that other machines can reach needs a token and TLS, or a setting that it needs none.
func TestBeyondLoopback(t *testing.T) {
	t.Parallel()
	cert, key, _ := writeCert(t)
	for _, want := range []struct {
		e     serve.Endpoint
		error string
	}{
		{e: serve.Endpoint{Address: "127.0.0.1:0"}},
		{e: serve.Endpoint{Address: "127.1.2.3:0"}},
		{e: serve.Endpoint{Address: "localhost:0"}},
		{e: serve.Endpoint{Address: "[::ffff:127.0.0.1]:0"}},
		{e: serve.Endpoint{Address: "127.0.0.1:0", CertFile: cert, KeyFile: key}},
		{e: serve.Endpoint{Address: "0.0.0.0:0", Token: token, CertFile: cert, KeyFile: key}},
		{e: serve.Endpoint{Address: "0.0.0.0:0", Token: token, InsecurePlain: true}},
		{e: serve.Endpoint{Address: "0.0.0.0:0"}, error: "set a token (--token-file), or listen on 127.0.0.1"},
		{e: serve.Endpoint{Address: ":0"}, error: "set a token"},
		{e: serve.Endpoint{Address: "[::]:0"}, error: "set a token"},
		{e: serve.Endpoint{Address: "10.0.0.1:0"}, error: "set a token"},
		{e: serve.Endpoint{Address: "localhost.example:0"}, error: "set a token"},
		{e: serve.Endpoint{Address: "127.0.0.1.example:0"}, error: "set a token"},
		{e: serve.Endpoint{Address: "0.0.0.0:0", CertFile: cert, KeyFile: key}, error: "set a token"},
		{e: serve.Endpoint{Address: "0.0.0.0:0", InsecurePlain: true}, error: "set a token"},
		{e: serve.Endpoint{Address: "0.0.0.0:0", Token: token}, error: "set --tls-cert and --tls-key, or --insecure-plain"},
		{e: serve.Endpoint{Address: "0.0.0.0:0", Token: "short", CertFile: cert, KeyFile: key}, error: "must have 32 characters or more"},
		{e: serve.Endpoint{Address: "127.0.0.1:0", CertFile: cert}, error: "cannot be used with its key"},
		{e: serve.Endpoint{Address: "127.0.0.1:0", CertFile: key, KeyFile: cert}, error: "cannot be used with its key"},
		{e: serve.Endpoint{Address: "127.0.0.1"}, error: "is neither host:port nor the path of a Unix socket"},
		{e: serve.Endpoint{Address: "127.0.0.1:nonsense"}, error: "cannot listen at"},
	} {
		l, err := serve.Listen(t.Context(), want.e)
		if want.error != "" {
			require.ErrorContains(t, err, want.error, "%+v", want.e)
			require.NotContains(t, err.Error(), token)
			continue
		}
		require.NoError(t, err, "%+v", want.e)
		require.NoError(t, l.Close())
	}
}

// Only the user that runs the server can use its socket, from the first moment on. A socket that nobody serves any more is replaced.
func TestSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "proxy.sock")
	l, err := serve.Listen(t.Context(), serve.Endpoint{Address: path})
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	_, err = serve.Listen(t.Context(), serve.Endpoint{Address: path})
	require.ErrorContains(t, err, "another process listens there")
	l.Listener = closing{l.Listener, func() { require.NoFileExists(t, path, "it could be that of the next process") }}
	require.NoError(t, l.Close())
	require.NoFileExists(t, path)

	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	require.NoError(t, err)
	left.SetUnlinkOnClose(false) // as after a crash
	require.NoError(t, left.Close())
	l, err = serve.Listen(t.Context(), serve.Endpoint{Address: path})
	require.NoError(t, err)
	require.NoError(t, l.Close())

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = serve.Listen(t.Context(), serve.Endpoint{Address: path})
	require.ErrorContains(t, err, "there is a file that is no socket")
	_, err = serve.Listen(t.Context(), serve.Endpoint{Address: filepath.Join(dir, "nowhere", "s")})
	require.Error(t, err)
}

// closing is a listener that calls a function before it closes.
type closing struct {
	net.Listener

	before func()
}

// Close implements [net.Listener].
func (l closing) Close() error {
	l.before()
	return l.Listener.Close()
}

// A server that the network can reach answers nobody without the token, and speaks HTTP/2.
func TestTokenAndTLS(t *testing.T) {
	t.Parallel()
	cert, key, roots := writeCert(t)
	f, err := config.Parse("headway.yaml", []byte(`upstreams: {crm: {url: "http://127.0.0.1:1", policies: ["9/s, burst 9"]}}`))
	require.NoError(t, err)
	s, err := serve.Open(t.Context(), serve.Config{File: f, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var listeners []*serve.Listener
	for range 2 {
		l, err := serve.Listen(t.Context(), serve.Endpoint{Address: "0.0.0.0:0", Token: token, CertFile: cert, KeyFile: key})
		require.NoError(t, err)
		listeners = append(listeners, l)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- s.Run(ctx, listeners[0], listeners[1]) }()
	base := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	send := func(l *serve.Listener, path string, fields ...string) (int, string) {
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost:"+port+path, http.NoBody)
		require.NoError(t, err)
		for i := 0; i < len(fields); i += 2 {
			req.Header.Set(fields[i], fields[i+1])
		}
		resp, err := base.RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, 2, resp.ProtoMajor)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	proxy, api := listeners[0], listeners[1]
	for _, wrong := range [][]string{
		nil, {"Headway-Authorization", token}, {"Headway-Authorization", "Bearer " + token[1:]}, {"Headway-Authorization", "Bearer "}, {"Headway-Authorization", "Basic " + token},
	} {
		status, body := send(proxy, "/crm/x", wrong...)
		require.Equal(t, http.StatusUnauthorized, status)
		require.NotContains(t, body, token)
		require.Contains(t, body, `"reason":"request"`)
		status, _ = send(api, "/v1/status", wrong...)
		require.Equal(t, http.StatusUnauthorized, status)
	}
	status, _ := send(proxy, "/crm/x", "Authorization", "Bearer "+token)
	require.Equal(t, http.StatusUnauthorized, status, "that field is the upstream's")
	status, _ = send(proxy, "/other/x", "Headway-Authorization", "Bearer "+token)
	require.Equal(t, http.StatusNotFound, status)
	for _, field := range []string{"Authorization", "Headway-Authorization"} {
		status, _ = send(api, "/v1/status", field, "Bearer "+token)
		require.Equal(t, http.StatusOK, status)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		require.Eventually(t, func() bool { status, _ := send(api, path); return status == http.StatusOK }, time.Minute, time.Millisecond)
	}
	status, _ = send(proxy, "/healthz")
	require.Equal(t, http.StatusUnauthorized, status)

	plain, err := net.Dial("tcp", api.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(plain, "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(plain)
	require.NoError(t, err)
	require.Contains(t, string(answer), "HTTP request to an HTTPS server")
	require.NoError(t, plain.Close())
	base.CloseIdleConnections()
	stop()
	require.NoError(t, <-stopped)
}

// Sockets, whatever the Host, and loopback take HTTP/2 without TLS. Other addresses without TLS do not.
func TestHTTP2WithoutTLS(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("headway.yaml", []byte(`upstreams: {crm: {policies: ["9/s, burst 9"]}}`))
	require.NoError(t, err)
	for _, e := range []serve.Endpoint{{Address: filepath.Join(t.TempDir(), "s")}, {Address: "127.0.0.1:0"}, {Address: "0.0.0.0:0", Token: token, InsecurePlain: true}} {
		s, err := serve.Open(t.Context(), serve.Config{File: f, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		proxy, err := serve.Listen(t.Context(), e)
		require.NoError(t, err)
		api, err := serve.Listen(t.Context(), serve.Endpoint{Address: "127.0.0.1:0"})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- s.Run(ctx, proxy, api) }()
		for _, two := range []bool{false, true} {
			base := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				if proxy.Addr().Network() == "unix" {
					return new(net.Dialer).DialContext(ctx, "unix", e.Address)
				}
				return new(net.Dialer).DialContext(ctx, "tcp", proxy.Addr().String())
			}}
			overTwo(base, two)
			host := map[string]string{"unix": "any.example", "tcp": "localhost"}[proxy.Addr().Network()]
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/other/x", http.NoBody)
			require.NoError(t, err)
			req.Header.Set("Headway-Authorization", "Bearer "+e.Token)
			resp, err := base.RoundTrip(req)
			if two && e.InsecurePlain {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, []int{http.StatusNotFound, map[bool]int{true: 2, false: 1}[two]}, []int{resp.StatusCode, resp.ProtoMajor})
			}
			base.CloseIdleConnections()
		}
		stop()
		require.NoError(t, <-stopped)
		require.NoError(t, s.Close())
	}
}

// A page in a browser of this machine cannot use the server, by whatever name it reaches it.
func TestWebPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, crm, nil)
		for fields, want := range map[string]string{
			"Host: localhost":                         "200",
			"Host: LOCALHOST:8712":                    "200",
			"Host: 127.0.0.1:8712":                    "200",
			"Host: [::1]:8712":                        "200",
			"Host: [::1]":                             "200",
			"Host: evil.example":                      "403",
			"Host: 127.0.0.1.nip.io":                  "403",
			"Host: 10.0.0.1":                          "403",
			"Host: ":                                  "403",
			"Host: localhost\r\nSec-Fetch-Site: none": "200",
			"Host: localhost\r\nSec-Fetch-Site: same-origin\r\nOrigin: http://localhost": "200",
			"Host: localhost\r\nSec-Fetch-Site: cross-site":                              "403",
			"Host: localhost\r\nSec-Fetch-Site: same-site":                               "403",
			"Host: localhost\r\nOrigin: https://evil.example":                            "403",
			"Host: localhost\r\nOrigin: null":                                            "403",
		} {
			answer := r.raw("GET /crm/a HTTP/1.1\r\n" + fields + "\r\nConnection: close\r\n\r\n")
			require.True(t, strings.HasPrefix(answer, "HTTP/1.1 "+want), "%s: %s", fields, answer)
		}
	})
}

// No more connections are open at once than are allowed: a further one waits until one is closed, by its client or a handler.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		on, stopped, open := newPipes(), make(chan error), make(chan net.Conn, 5)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
				_ = conn.Close() // makes no room
			}
		})}
		go func() { stopped <- server.Serve(serve.NewListener(on, "", 2)) }()
		for range cap(open) {
			go func() {
				if conn, err := on.dial(t.Context(), "", ""); err == nil {
					open <- conn
				}
			}()
		}
		synctest.Wait()
		require.Len(t, open, 2)
		require.NoError(t, (<-open).Close())
		synctest.Wait()
		require.Len(t, open, 2)
		_, err := io.WriteString(<-open, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, open, 2)
		require.NoError(t, server.Close(), "although Accept waits")
		require.ErrorIs(t, <-stopped, http.ErrServerClosed)
	})
}

// Requests over HTTP/2 count as connections do. A further one is refused, because it could not wait without a cost.
func TestRequestsOfHTTP2AreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		on, stopped, leave := newPipes(), make(chan error), make(chan struct{})
		l := serve.NewListener(on, "", 4)
		server := &http.Server{Handler: l.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave })), Protocols: new(http.Protocols)}
		server.Protocols.SetUnencryptedHTTP2(true)
		go func() { stopped <- server.Serve(l) }()
		base := &http.Transport{DialContext: on.dial}
		overTwo(base, true)
		send := func() *http.Response {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
			require.NoError(t, err)
			resp, err := base.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return resp
		}
		var all sync.WaitGroup
		for range 2 { // beside their connection, and the next one
			all.Go(func() { require.Equal(t, http.StatusOK, send().StatusCode) })
			synctest.Wait()
		}
		resp := send()
		require.Equal(t, []string{"503 Service Unavailable", "1", "application/problem+json"},
			[]string{resp.Status, resp.Header.Get("Retry-After"), resp.Header.Get("Content-Type")})
		close(leave)
		all.Wait()
		require.Equal(t, http.StatusOK, send().StatusCode)
		base.CloseIdleConnections()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-stopped, http.ErrServerClosed)
	})
}
