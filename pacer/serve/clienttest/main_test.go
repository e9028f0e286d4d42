package clienttest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/serve"
)

// daemonEnv makes this process a server, and holds what it serves.
const daemonEnv = "HEADWAY_CLIENTTEST_DAEMON"

// served is that.
type served struct{ Config, Proxy, API, State string }

func TestMain(m *testing.M) {
	if text := os.Getenv(daemonEnv); text != "" {
		if err := beDaemon(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(redistest.Sharing(m).Run())
}

// beDaemon serves until SIGTERM, and prints where.
func beDaemon(text string) error {
	var d served
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := serve.Open(ctx, serve.Config{Path: d.Config, State: d.State, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	var listeners []*serve.Listener
	for _, address := range []string{d.Proxy, d.API} {
		l, err := serve.Listen(ctx, serve.Endpoint{Address: address})
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
		_, _ = fmt.Fprintln(os.Stdout, l.Addr())
	}
	return s.Run(ctx, listeners[0], listeners[1])
}

// A daemon is a server in a process of its own.
type daemon struct {
	served

	cmd *exec.Cmd
	log string // its path: a file needs no goroutine that copies
}

// startDaemon starts a server for the upstreams of a file, with the text of it.
func startDaemon(t *testing.T, text string) *daemon {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "headway.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	d := &daemon{served: served{Config: path, Proxy: "127.0.0.1:0", API: "127.0.0.1:0", State: filepath.Join(dir, "state.json")}, log: filepath.Join(dir, "log")}
	d.start(t)
	t.Cleanup(func() {
		d.end(syscall.SIGTERM)
		if t.Failed() {
			t.Log(d.logged())
		}
	})
	return d
}

// start starts it, at the addresses that it had before.
func (d *daemon) start(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(&d.served)
	require.NoError(t, err)
	d.cmd = exec.Command(os.Args[0])
	d.cmd.Env = append(os.Environ(), daemonEnv+"="+string(text))
	log, err := os.OpenFile(d.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	d.cmd.Stderr = log
	out, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, d.cmd.Start())
	lines := bufio.NewScanner(out)
	for _, address := range []*string{&d.Proxy, &d.API} {
		require.True(t, lines.Scan(), d.logged())
		*address = lines.Text()
	}
}

// logged returns what it has logged until now.
func (d *daemon) logged() string {
	text, _ := os.ReadFile(d.log)
	return string(text)
}

// end ends it, and waits for that.
func (d *daemon) end(s syscall.Signal) {
	_ = d.cmd.Process.Signal(s)
	_ = d.cmd.Wait()
}

// python returns an interpreter that has modules.
func python(t *testing.T, modules ...string) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import sys, "+strings.Join(append(modules, "os"), ", ")).Run() == nil {
			return name
		}
	}
	t.Skipf("no Python here has %v", modules)
	return ""
}

// run runs a command that ends by itself, and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out, messages bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &messages
	require.NoError(t, cmd.Run(), "%s: %s%s", name, out.String(), messages.String())
	return out.String()
}
