package serve_test

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net/http"
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

// The counts of windows and calendars survive a restart, and a crash but for the last second.
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

	require.NoError(t, os.WriteFile(path, []byte("[{]"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, upstreams, nil, keep)
		require.InDelta(t, 10, r.remaining("crm", ""), 0, "a damaged file is no reason not to start")
		require.Contains(t, r.log.String(), "the state file is damaged")
	})
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing else is left")
	_, err = serve.Open(t.Context(), serve.Config{Path: writeFile(t, "upstreams:\n"+upstreams), State: filepath.Join(dir, "nowhere", "s")})
	require.ErrorContains(t, err, "cannot be written")
}

// A state that can no longer be written, as on a full disk, is no reason not to start. It is logged once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const path = "/proc/self/comm" // it can be read, and no file be made beside it
	if _, err := os.Stat(path); err != nil {
		t.Skip("there is no " + path)
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		file, err := config.Parse("headway.yaml", []byte("upstreams:\n"+crm))
		require.NoError(t, err)
		s, err := serve.Open(t.Context(), serve.Config{File: file, State: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.ErrorContains(t, s.Close(), "/proc/self/.headway-")
		require.Equal(t, 1, strings.Count(log.String(), "a crash now would forget what was counted"))
	})
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
