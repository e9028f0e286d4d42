package serve_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/serve"
)

// The counts of windows and calendars survive a restart, and a crash except for the last second.
func TestState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	const upstreams = `  crm: {url: "http://crm.example", policies: ["10 daily (UTC)"]}`
	keep := func(c *serve.Config) { c.State = path }
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, upstreams, nil, keep)
		_, _ = r.get("/crm/x")
		_, _ = r.get("/crm/x")
		time.Sleep(1100 * time.Millisecond) // it is written
		_, _ = r.get("/crm/x")
		crashed, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path+".crashed", crashed, 0o600))
	})
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	crashed, err := os.ReadFile(path + ".crashed")
	require.NoError(t, err)
	for i, want := range []float64{7, 8} {
		if i == 1 {
			require.NoError(t, os.WriteFile(path, crashed, 0o600))
		}
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, upstreams, nil, keep)
			require.InDelta(t, want, r.remaining("crm", ""), 0)
		})
	}

	newer := strings.Replace(string(crashed), `"policy":`, `"color":"red","policy":`, 1)
	require.NoError(t, os.WriteFile(path, []byte(newer), 0o600))
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, upstreams, nil, keep)
		require.InDelta(t, 8, r.remaining("crm", ""), 0, "a later version may add fields")
	})
	for _, other := range []string{`{"version": 2}`, "", "[{]", strings.Repeat(" ", 16<<20) + "[]"} {
		require.NoError(t, os.WriteFile(path, []byte(other), 0o600))
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, upstreams, nil, keep)
			require.InDelta(t, 10, r.remaining("crm", ""), 0, "a damaged file is no reason not to start")
			require.Contains(t, r.log.String(), "the state file is damaged")
		})
		kept, err := os.ReadFile(path + ".damaged")
		require.NoError(t, err)
		require.Equal(t, other, string(kept))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "nothing else is left")
}

// A state file that cannot be one is a mistake, and nothing happens to it.
func TestBadStates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	private := filepath.Join(dir, "private")
	require.NoError(t, os.Mkdir(private, 0o500))
	foreign := filepath.Join(dir, "foreign")
	require.NoError(t, os.WriteFile(foreign, []byte("[]"), 0))
	device := filepath.Join(dir, "device") // a link, which a mistake here may replace
	require.NoError(t, os.Symlink(os.DevNull, device))
	isRoot := os.Geteuid() == 0 // whom no mode stops
	for path, want := range map[string]string{
		dir: "is not a file", device: "is not a file", "/proc/self/comm": "cannot be written", "/proc/self/none": "cannot be written",
		filepath.Join(dir, "nowhere", "s"): "cannot be written", filepath.Join(foreign, "s"): "cannot be read",
		filepath.Join(private, "s"): "cannot be written", foreign: "cannot be read",
	} {
		if _, err := os.Stat(path); strings.HasPrefix(path, "/proc/") && err != nil && !strings.HasSuffix(path, "none") || isRoot && (path == foreign || strings.HasPrefix(path, private)) {
			continue
		}
		_, err := serve.Open(t.Context(), serve.Config{Path: writeFile(t, "upstreams:\n"+crm), State: path})
		require.ErrorContains(t, err, want, path)
		require.ErrorContains(t, err, "State", path)
	}
}

// A full disk is no reason not to start.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8k", "none", dir).Run(); err != nil {
		t.Skip("a small disk cannot be mounted here: ", err)
	}
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", dir).Run()) })
	path := filepath.Join(dir, "state")
	require.NoError(t, os.WriteFile(path, []byte("[]"), 0o600))
	_ = os.WriteFile(filepath.Join(dir, "full"), make([]byte, 8<<10), 0o600)
	synctest.Test(t, func(t *testing.T) {
		s, log := openWithState(t, path)
		require.Contains(t, log.String(), "no space left on device")
		require.NoError(t, os.Remove(filepath.Join(dir, "full")))
		require.NoError(t, s.Close())
	})
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// A state that can no longer be written is logged once, and is an error at the end.
func TestStateIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, log := openWithState(t, filepath.Join(dir, "state"))
		require.NoError(t, os.RemoveAll(dir))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Empty(t, log.String(), "there is nothing new")
		req := httptest.NewRequest(http.MethodPost, "/v1/acquire", strings.NewReader(`{"upstream": "crm"}`))
		req.Header.Set("Content-Type", "application/json")
		s.API().ServeHTTP(httptest.NewRecorder(), req)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "a crash now would forget what was counted"))
		require.ErrorContains(t, s.Close(), ".headway-")
	})
}

// openWithState returns a server with a state file, and its log.
func openWithState(t *testing.T, path string) (*serve.Server, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	file, err := config.Parse("headway.yaml", []byte("upstreams:\n"+crm))
	require.NoError(t, err)
	s, err := serve.Open(t.Context(), serve.Config{File: file, State: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	return s, &log
}

// A server that stops before its stores have answered logs nothing about them: its own end is no fault of theirs.
func TestStopBeforeReady(t *testing.T) {
	t.Parallel()
	for range 100 {
		s, log := openWithState(t, "")
		s.Drain()
		require.NoError(t, s.Close())
		require.Empty(t, log.String())
	}
}

// A state from a clock that was wrong does not hold calls up until its time comes.
func TestStateFromTheFuture(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	for i, policy := range []string{"10 daily (UTC)", "10 monthly (UTC)", "10 per window of 1h", "at most 10 in any 1h, in 10 buckets"} {
		for _, ahead := range []time.Duration{10 * 366 * 24 * time.Hour, 0} {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(ahead)
				r := newRig(t, `  crm: {url: "http://crm.example", policies: ["`+policy+`"]}`, nil, func(c *serve.Config) { c.State = path + strconv.Itoa(i) })
				require.InDelta(t, 10, r.remaining("crm", ""), 0, policy)
				for range 10 {
					resp, _ := r.get("/crm/x", "Headway-Max-Wait", "0s")
					require.Equal(t, http.StatusOK, resp.StatusCode, policy)
				}
			})
		}
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "headway.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Mistakes are reported before anything is served.
func TestOpenReportsMistakes(t *testing.T) {
	t.Parallel()
	good := writeFile(t, "upstreams:\n"+crm+"  none: {policies: [9/s]}")
	for _, want := range []struct {
		c     serve.Config
		error string
	}{
		{serve.Config{}, "give a Path or a File"},
		{serve.Config{Path: "/nowhere"}, "/nowhere: cannot be read"},
		{serve.Config{Path: writeFile(t, "upstreams: {crm: {policies: [fast]}}")}, "headway.yaml:1:30: upstreams.crm.policies[0]"},
		{serve.Config{Path: good, Root: "other"}, "is no upstream with a URL"},
		{serve.Config{Path: good, Root: "none"}, "is no upstream with a URL"},
	} {
		want.c.Logger = slog.New(slog.DiscardHandler)
		_, err := serve.Open(t.Context(), want.c)
		require.ErrorContains(t, err, want.error)
	}
}

// Requests that wait when the file changes go by the new limits, and those to other upstreams go on waiting.
func TestTheFileChangesWhileRequestsWait(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	text := func(policy string) []byte {
		return fmt.Appendf(nil, `upstreams:
  crm: {url: %q, maxWait: forever, policies: [%q]}
  desk: {url: %q, maxWait: forever, policies: ["1 per window of 1h"]}`, upstream.URL, policy, upstream.URL)
	}
	path := writeFile(t, string(text("1 per window of 1h")))
	s, err := serve.Open(t.Context(), serve.Config{Path: path, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	const n = 20
	codes := map[string]chan int{"/crm/x": make(chan int, n), "/desk/x": make(chan int, n)}
	var all sync.WaitGroup
	for path, code := range codes {
		for range n {
			all.Go(func() {
				answer := httptest.NewRecorder()
				s.Proxy().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
				code <- answer.Code
			})
		}
	}
	waiting := func(want int) {
		require.Eventually(t, func() bool {
			return strings.Contains(get(s.API(), "/v1/status?upstream=crm"), fmt.Sprintf(`"waiting":%d,`, want)) &&
				strings.Contains(get(s.API(), "/v1/status?upstream=desk"), `"waiting":19,`)
		}, time.Minute, 10*time.Millisecond)
	}
	waiting(n - 1)
	require.NoError(t, os.WriteFile(path, text("fast"), 0o600))
	require.NoError(t, os.WriteFile(path, text("1000 per window of 1h"), 0o600))
	for range n {
		require.Equal(t, http.StatusOK, <-codes["/crm/x"])
	}
	waiting(0)
	require.NoError(t, s.Close())
	all.Wait()
	require.Equal(t, http.StatusOK, <-codes["/desk/x"])
	for range n - 1 {
		require.Equal(t, http.StatusServiceUnavailable, <-codes["/desk/x"])
	}
}

// A change of the file takes effect at once.
func TestTheFileIsFollowed(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "upstreams:\n"+crm)
	lines, log := io.Pipe()
	s, err := serve.Open(t.Context(), serve.Config{Path: path, Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	defer func() {
		require.NoError(t, lines.Close())
		require.NoError(t, s.Close())
	}()
	require.Contains(t, get(s.API(), "/v1/status"), `"remaining":10`)
	require.NoError(t, os.WriteFile(path, []byte(`upstreams: {crm: {url: "http://crm.example/base/", policies: [fast]}}`), 0o600))
	logged := bufio.NewScanner(lines)
	for logged.Scan() && !strings.Contains(logged.Text(), "a change of the file has no effect") {
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	require.Contains(t, get(s.API(), "/v1/status"), `"remaining":10`)
	require.NoError(t, os.WriteFile(path, []byte(`upstreams: {crm: {url: "http://crm.example/base/", policies: ["20 per window of 1h"]}}`), 0o600))
	require.Eventually(t, func() bool { return !strings.Contains(get(s.API(), "/v1/status"), `"remaining":10`) }, time.Minute, 10*time.Millisecond)
	require.Contains(t, get(s.API(), "/v1/status"), `"remaining":20`)
}
