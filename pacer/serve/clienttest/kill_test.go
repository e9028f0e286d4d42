package clienttest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// A hall is an upstream whose calls end when the test ends them, or their connections do.
type hall struct {
	inside, most atomic.Int64
	leave        chan struct{}
}

// ServeHTTP implements [http.Handler].
func (h *hall) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	n := h.inside.Add(1)
	defer h.inside.Add(-1)
	for most := h.most.Load(); n > most && !h.most.CompareAndSwap(most, n); most = h.most.Load() {
	}
	select {
	case <-r.Context().Done():
	case <-h.leave:
	}
}

// The process is killed with calls in flight and waiting: its clients get an error at once, and the next process goes on. With Redis, the
// permits are back when the leases have run out, and not before, because the upstream may not have noticed, and no limit is exceeded. In memory,
// a rate's burst at most is. The counts of windows are not forgotten.
func TestKill(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("redis %v", shared), func(t *testing.T) {
			if !measure.On {
				t.Parallel()
			}
			flying, waiting := measure.Length(20, 100), measure.Length(100, 1000)
			upstream := &hall{leave: make(chan struct{})}
			server := httptest.NewServer(upstream)
			t.Cleanup(server.Close)
			strict := &upstreamtest.Upstream{Limits: []upstreamtest.Limit{upstreamtest.Bucket(5+2, 50*time.Millisecond)}} // two may come late
			quick := httptest.NewServer(strict)
			t.Cleanup(quick.Close)
			file := fmt.Sprintf(`upstreams:
  crm: {url: %q, maxWait: 2m, policies: ["%d in flight, lease 3s", "quota: 10000 daily (UTC)"]}
  desk: {url: %q, maxWait: 2m, policies: ["20/s, burst 5"]}`, server.URL, flying, quick.URL)
			if shared {
				file += "\nstore: r\nstores: {r: {redis: '" + redistest.Start(t).Addr + "'}}"
			}
			d := startDaemon(t, file)
			client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 0}}
			send := func(path string) error {
				resp, err := client.Get("http://" + d.Proxy + path)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				return err
			}
			var all sync.WaitGroup
			var failed atomic.Int64
			for i := range flying + 2*waiting {
				path := "/crm/x"
				if i < waiting {
					path = "/desk/x"
				}
				all.Go(func() {
					if send(path) != nil {
						failed.Add(1)
					}
				})
			}
			require.Eventually(t, func() bool {
				return upstream.inside.Load() == int64(flying) && waits(t, d) == waiting
			}, time.Minute, 20*time.Millisecond)
			time.Sleep(1100 * time.Millisecond) //realtime: the state is written each second; and with Redis, slots are reserved further ahead while it is slow

			above := strict.Refused() // while 2,100 clients connect, the first calls may be late, and then too close together
			timers := measure.Watch()
			began := time.Now()
			d.end(syscall.SIGKILL)
			all.Wait()
			clients := time.Since(began) //realtime: a measurement
			require.GreaterOrEqual(t, failed.Load(), int64(flying+waiting), "each client got an error, but for those of desk that went")
			began = time.Now()
			d.start(t)
			close(upstream.leave)
			require.NoError(t, send("/desk/x"))
			again := time.Since(began) //realtime: a measurement
			require.NoError(t, send("/crm/x"))
			permit := time.Since(began) //realtime: a measurement

			for _, path := range []string{"/crm/x", "/desk/x"} {
				for range 2 * flying {
					all.Go(func() {
						if err := send(path); err != nil {
							t.Error(err)
						}
					})
				}
			}
			all.Wait()
			late := timers.Stop()
			require.LessOrEqual(t, upstream.most.Load(), int64(flying))
			_, status := d.get(t, "/v1/status")
			require.NotContains(t, status, `"remaining":10000`, "what was counted is not forgotten")
			least, most, burst := time.Duration(0), time.Second, 5
			if shared { // a lease of 3 s, which is renewed each second
				least, most, burst = 2*time.Second-100*time.Millisecond, 3*time.Second, 0
			}
			measure.Judge(t, late, 100*time.Millisecond, fmt.Sprintf("with %d in flight and %d waiting, clients had their errors after %v; the next process answered after %v, and had a permit after %v; %d were above the rate",
				flying, waiting, clients, again, permit, strict.Refused()-above),
				clients < time.Second && again < time.Second && clients+permit > least && permit < most && strict.Refused()-above <= burst)
		})
	}
}

// Redis dies while a thousand requests wait: each goes on, at the process's share, which is all of the limit here.
func TestRedisDies(t *testing.T) {
	t.Parallel()
	var served, answered atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	t.Cleanup(upstream.Close)
	store := redistest.Start(t)
	d := startDaemon(t, fmt.Sprintf(`upstreams: {crm: {url: %q, processes: 1, maxWait: 5m, policies: ["250/s, burst 10"]}}
store: r
stores: {r: {redis: '%s'}}`, upstream.URL, store.Addr))
	ready := func() bool { status, _ := d.get(t, "/readyz"); return status == http.StatusOK }
	require.Eventually(t, ready, time.Minute, 10*time.Millisecond)
	status, _ := d.getProxy(t, "/crm/x")
	require.Equal(t, http.StatusOK, status)
	const n = 1000
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			resp, err := http.Get("http://" + d.Proxy + "/crm/x")
			if err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK {
				answered.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return served.Load() > 100 }, time.Minute, time.Millisecond)
	store.Stop()
	all.Wait()
	require.Equal(t, []int64{1 + n, n}, []int64{served.Load(), answered.Load()}, "each went once")
	require.True(t, ready(), "no other process would do better")
}

// waits returns how many calls wait.
func waits(t *testing.T, d *daemon) int {
	t.Helper()
	_, body := d.get(t, "/v1/status")
	return numberOf(body, `"waiting":`)
}

// numberOf returns the first number after a text; −1 if there is none.
func numberOf(body, text string) int {
	n := -1
	if _, after, found := strings.Cut(body, text); found {
		_, _ = fmt.Sscanf(after, "%d", &n)
	}
	return n
}

// get reads a path of the API, and getProxy one of the proxy.
func (d *daemon) get(t *testing.T, path string) (int, string) {
	t.Helper()
	return fetch(t, "http://"+d.API+path)
}

func (d *daemon) getProxy(t *testing.T, path string) (int, string) {
	t.Helper()
	return fetch(t, "http://"+d.Proxy+path)
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}
