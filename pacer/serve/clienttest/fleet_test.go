package clienttest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/examples/zendesk/standin"
	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// skew is by how much calls may bunch up between here and the stand-in, as in the example.
const skew = 50 * time.Millisecond

// A judge is the strict stand-in of the example, of the plan with the most calls a minute.
func newJudge(t *testing.T) (url string, stats func() standin.TenantRow) {
	t.Helper()
	judge, err := standin.New(standin.Config{Plan: "enterprise", Peak: standin.Peak(700)})
	require.NoError(t, err)
	server, err := standin.Serve(t.Context(), "127.0.0.1:0", judge)
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return server.URL(), func() standin.TenantRow {
		resp, err := http.Get(server.URL() + standin.StatsPath)
		require.NoError(t, err)
		defer resp.Body.Close()
		var s standin.Stats
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&s))
		return s.Tenants["acme"]
	}
}

// ticket is what the clients read.
const ticket = "/acme/api/v2/tickets/7.json"

// limits are those of the stand-in's plan for calls of one ticket, and one that counts them all.
const limits = `[account: "at most 700 in any 1m, burst 2, skew 50ms", peak: "at most 14 in any 1s, burst 2, skew 50ms", all: "100000 per window of 8760h"]`

// Four Python processes use the whole limit, no call is refused, and each is charged once: through the proxy and by the API, in memory and
// with two servers and a Go program over Redis.
func TestPythonFleet(t *testing.T) {
	interpreter := python(t)
	for _, shared := range []bool{false, true} {
		for _, api := range []bool{false, true} {
			t.Run(fmt.Sprintf("redis %v, api %v", shared, api), func(t *testing.T) {
				if !measure.On {
					t.Parallel()
				}
				url, stats := newJudge(t)
				file := fmt.Sprintf("upstreams: {zendesk: {url: %q, hosts: %q, policies: %s, maxWait: 1m}}", url, strings.TrimPrefix(url, "http://"), limits)
				daemons := []*daemon{nil, nil, nil, nil}
				if shared {
					file += "\nstore: r\nstores: {r: {redis: '" + redistest.Start(t).Addr + "'}}"
					daemons[0], daemons[1] = startDaemon(t, file), startDaemon(t, file)
					daemons[2], daemons[3] = daemons[0], daemons[1]
				} else {
					d := startDaemon(t, file)
					daemons = []*daemon{d, d, d, d}
				}
				length := measure.Length(3*time.Second, 65*time.Second)
				seconds := fmt.Sprint(length.Seconds())
				timers := measure.Watch()
				var all sync.WaitGroup
				var outputs [4]string
				for i, d := range daemons {
					all.Go(func() {
						if api {
							outputs[i] = run(t, interpreter, "testdata/acquire.py", d.API, strings.TrimPrefix(url, "http://"), ticket, seconds)
						} else {
							outputs[i] = run(t, interpreter, "testdata/proxy.py", d.Proxy, "/zendesk"+ticket, seconds)
						}
					})
				}
				if shared {
					all.Go(func() { callInGo(t, file, url+ticket, length) })
				}
				all.Wait()
				late := timers.Stop()
				row := stats()
				for limit, n := range row.RefusedBy { // a busy machine brings calls closer together than the room that the peak leaves
					require.True(t, limit == "peak" || n == 0, "%+v", row)
				}
				for status := range strings.FieldsSeq(strings.Join(outputs[:], "\n")) {
					require.Contains(t, []string{"200", "429"}, status)
				}
				require.Contains(t, outputs[0], "200")
				require.Eventually(t, func() bool {
					_, body := daemons[0].get(t, "/v1/status")
					return strings.Contains(body, fmt.Sprintf(`"remaining":%d,`, 100_000-row.Admitted-row.Refused))
				}, time.Minute, 100*time.Millisecond, "%+v", row)
				n, per := fullSeconds(row.AdmittedPerSecond)
				share := per / (700. / 60)
				measure.Judge(t, late, skew, fmt.Sprintf("%d calls, %d refused, in %d full seconds %.2f/s: %.1f %% of the limit",
					row.Admitted, row.Refused, n, per, 100*share), row.Refused == 0 && share >= 0.99)
			})
		}
	}
}

// fullSeconds returns how many seconds there are between the first and the last in which calls were admitted, and how many each second.
func fullSeconds(counts []int) (n int, per float64) {
	for len(counts) > 0 && counts[0] == 0 {
		counts = counts[1:]
	}
	for _, c := range counts[min(1, len(counts)):max(1, len(counts)-1)] {
		n, per = n+1, per+float64(c)
	}
	return n, per / float64(max(1, n))
}

// callInGo calls as a Go program does that reads the same file.
func callInGo(t *testing.T, file, url string, length time.Duration) {
	t.Helper()
	f, err := config.Parse("headway.yaml", []byte(file))
	if err != nil {
		t.Error(err)
		return
	}
	pacers, err := f.Open()
	if err != nil {
		t.Error(err)
		return
	}
	defer pacers.Close()
	client, err := pacers.Client()
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		req.SetBasicAuth("sync@example.com/token", "example")
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
	}
}
