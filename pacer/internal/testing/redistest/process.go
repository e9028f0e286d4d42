package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	startTimeout = time.Minute
	pollInterval = 5 * time.Millisecond
)

var errOtherServer = errors.New("another server answers on its port")

// process is one run of a server.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process has been waited for
}

// startError reports that a server did not come up, and contains its output.
type startError struct {
	reason string
	output string
}

func (e *startError) Error() string {
	return fmt.Sprintf("redistest: the server %s; its output:\n%s", e.reason, e.output)
}

func isPortTaken(err error) bool {
	var failed *startError

	return errors.As(err, &failed) && strings.Contains(failed.output, "already in use")
}

// launch runs the server's command line and returns when it answers.
func launch(ctx context.Context, server *Server) (*process, error) {
	log, err := os.Create(filepath.Join(server.dir, "server.log"))
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}

	defer func() { _ = log.Close() }() // the child has a descriptor of its own

	// Not CommandContext: the test's context ends before its cleanups run, and they may need the server.
	cmd := exec.Command(server.binary, server.args...) //nolint:gosec,noctx // a test chose the command
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd)

	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}

	running := &process{cmd: cmd, exited: make(chan struct{})}

	go func() {
		defer close(running.exited)

		_ = cmd.Wait() // it ends by a signal
	}()

	if reason := running.awaitReady(ctx, server); reason != "" {
		running.kill()

		output, _ := os.ReadFile(log.Name())

		return nil, &startError{reason: reason, output: string(bytes.TrimSpace(output))}
	}

	return running, nil
}

// awaitReady polls until the process answers, and returns "" then or else why it will not.
func (p *process) awaitReady(ctx context.Context, server *Server) string {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	client := server.newClient()
	defer func() { _ = client.Close() }()

	tick := time.NewTicker(pollInterval)
	defer tick.Stop()

	for {
		err := p.answers(ctx, client)
		if err == nil {
			return ""
		}

		select {
		case <-p.exited:
			return "exited"
		case <-ctx.Done():
			return fmt.Sprintf("did not answer within %v (%v)", startTimeout, err)
		case <-tick.C:
		}
	}
}

// answers reports whether this very process answers: another server may have won the race for the port.
func (p *process) answers(ctx context.Context, client *redis.Client) error {
	// go-redis logs each dial that fails, and the first few do. A TLS server puts up with a bare connection.
	var dialer net.Dialer

	conn, err := dialer.DialContext(ctx, "tcp", client.Options().Addr)
	if err != nil {
		return err
	}

	_ = conn.Close()

	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}

	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", p.cmd.Process.Pid)) {
		return errOtherServer
	}

	return nil
}

// kill ends the process, a paused one too, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it is gone already
	<-p.exited
}
