//go:build measure

package clienttest_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/measure"
)

// plainEnv makes this process a plain httputil.ReverseProxy, and holds its target.
const plainEnv = "HEADWAY_CLIENTTEST_PLAIN"

func init() { //nolint:gochecknoinits // before the tests
	to := os.Getenv(plainEnv)
	if to == "" {
		return
	}
	u, err := url.Parse(to)
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, l.Addr())
	panic(http.Serve(l, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}))
}

// startPlain starts such a process.
func startPlain(t *testing.T, to string) (address string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), plainEnv+"="+to)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	_, err = fmt.Fscanln(out, &address)
	require.NoError(t, err)
	return address
}

// The proxy's overhead for a request that need not wait, beside a plain proxy in the same run, and its cost.
func TestOverhead(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	t.Cleanup(upstream.Close)
	d := startDaemon(t, `upstreams: {crm: {url: "`+upstream.URL+`", policies: ["100000/s, burst 1000", "1000000000 daily (UTC)"]}}`)
	plain := startPlain(t, upstream.URL)
	get := func(address string) time.Duration {
		began := time.Now()
		resp, err := http.Get("http://" + address + "/crm/x")
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return time.Since(began)
	}
	for range 500 {
		get(plain)
		get(d.Proxy)
	}
	const n = 5000
	before := cpu(t, d)
	var ours, theirs []time.Duration
	timers := measure.Watch()
	for range n {
		theirs = append(theirs, get(plain))
		ours = append(ours, get(d.Proxy))
	}
	late := timers.Stop()
	each := (cpu(t, d) - before) / n
	slices.Sort(ours)
	slices.Sort(theirs)
	p50, p99 := ours[n/2]-theirs[n/2], ours[n*99/100]-theirs[n*99/100]
	measure.Judge(t, late, time.Millisecond, fmt.Sprintf("added at p50 %v (to %v), at p99 %v (to %v); CPU a request %v",
		p50, theirs[n/2], p99, theirs[n*99/100], each), p50 <= 300*time.Microsecond && p99 <= 2*time.Millisecond && each <= 500*time.Microsecond)
}

// The memory of a waiting request.
func TestWaitingRequests(t *testing.T) {
	d := startDaemon(t, `upstreams: {crm: {url: "http://127.0.0.1:1", maxWait: forever, policies: ["1 per window of 1h"]}}`)
	const n = 10_000
	idle := rss(t, d)
	for range n {
		conn, err := net.Dial("tcp", d.Proxy)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "GET /crm/x HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\nAuthorization: Bearer 0123456789abcdef\r\nAccept: */*\r\n\r\n")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return waits(t, d) >= n-1 }, time.Minute, 100*time.Millisecond)
	each := (rss(t, d) - idle) / n
	measure.Judge(t, measure.Lateness{}, 0, fmt.Sprintf("%d bytes for each of %d waiting requests", each, n), each <= 30<<10)
}

// cpu returns how long a server has run on processors.
func cpu(t *testing.T, d *daemon) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	require.NoError(t, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// rss returns how much memory a server has.
func rss(t *testing.T, d *daemon) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	require.NoError(t, err)
	return numberOf(string(status), "VmRSS:") << 10
}
