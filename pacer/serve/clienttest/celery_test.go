package clienttest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// bucketEach is how often the upstream admits a call. It admits ten at once.
const bucketEach = 100 * time.Millisecond

// The task of docs/serve.md, in two workers of four processes each, makes each call at its time, and no process waits for it.
func TestCelery(t *testing.T) {
	interpreter := python(t, "celery", "redis", "requests")
	if !measure.On {
		t.Parallel()
	}
	upstream := &upstreamtest.Upstream{Limits: []upstreamtest.Limit{upstreamtest.Bucket(10, bucketEach)}}
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	d := startDaemon(t, `upstreams: {crm: {policies: ["10 per 1s, burst 8"]}}`) // there is room for two that come late
	broker := redistest.Start(t).Addr
	dir := t.TempDir()
	code := ""
	for _, one := range examples(t, "python") {
		if strings.Contains(one, "celery") {
			code = strings.NewReplacer("127.0.0.1:6379", broker, "https://api.example.com", server.URL).Replace(d.at(one))
		}
	}
	require.NotEmpty(t, code)
	_, task, _ := strings.Cut(code, "@app.task")
	require.LessOrEqual(t, strings.Count(task, "\n"), 20, "the task is short")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sync.py"), []byte(code), 0o600))
	start := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		var log bytes.Buffer
		cmd := exec.Command(interpreter, args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
		cmd.Env = append(os.Environ(), "PYTHONPATH="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		require.NoError(t, cmd.Start())
		return cmd, &log
	}
	for i := range 2 {
		worker, log := start("-m", "celery", "-A", "sync", "worker", "-c", "4", "-n", fmt.Sprintf("w%d@localhost", i), "--loglevel", "warning", "--without-gossip", "--without-mingle")
		t.Cleanup(func() {
			_ = syscall.Kill(-worker.Process.Pid, syscall.SIGKILL)
			_ = worker.Wait()
			if t.Failed() {
				t.Log(log.String())
			}
		})
	}
	if measure.On { // how workers start is not measured
		require.Eventually(t, func() bool {
			ping, _ := exec.Command("env", "-C", dir, interpreter, "-m", "celery", "-A", "sync", "inspect", "ping").Output()
			return bytes.Contains(ping, []byte("2 nodes online"))
		}, 2*time.Minute, time.Second)
	}
	tasks := measure.Length(30, 200)
	timers := measure.Watch()
	sender, log := start("-c", fmt.Sprintf("import sync\nfor i in range(%d): sync.sync.delay(i)", tasks))
	require.NoError(t, sender.Wait(), log.String())
	require.Eventually(t, func() bool { return upstream.Admitted()+upstream.Refused() >= tasks }, 2*time.Minute, 50*time.Millisecond)
	late := timers.Stop()

	calls, tickets := upstream.Calls(), make(map[string]int)
	for _, c := range calls {
		tickets[c.Request.URL.Path]++
	}
	require.Len(t, tickets, tasks)
	require.Len(t, calls, tasks, "each goes once")
	took := calls[tasks-1].At.Sub(calls[0].At)
	share := float64(tasks-8) / (10 * took.Seconds()) // eight go at once
	slow := slowerThanHalfASecond(t, d)
	measure.Judge(t, late, 2*bucketEach, fmt.Sprintf("%d tasks in %v, %d refused: %.1f %% of the limit; %d of the requests to the API took over 0.5 s",
		tasks, took, upstream.Refused(), 100*share, slow), upstream.Refused() == 0 && share >= 0.95 && slow == 0)
}

// slowerThanHalfASecond returns how many requests to the API were answered late, as Prometheus learns it.
func slowerThanHalfASecond(t *testing.T, d *daemon) (n int) {
	t.Helper()
	resp, err := http.Get("http://" + d.API + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		count, _ := strconv.Atoi(value)
		switch {
		case !strings.HasPrefix(name, `headway_serve_request_duration_seconds_`) || !strings.Contains(name, `by="api"`):
		case strings.HasPrefix(name, "headway_serve_request_duration_seconds_count"):
			n += count
		case strings.Contains(name, `le="0.5"`):
			n -= count
		}
	}
	return n
}
