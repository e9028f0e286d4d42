package redistest

import (
	"context"
	"crypto/tls"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Server is one redis-server process that belongs to one test. Its methods may be called from any
// goroutine, but those that can fail the test (Client cannot) only from the test's own.
type Server struct {
	// Addr is the server's host:port. It stays the same across Restart.
	Addr string

	tb     testing.TB
	binary string
	args   []string
	dir    string
	tls    *tls.Config // nil where the server speaks plain text

	mu      sync.Mutex
	running *process // nil when stopped
	paused  bool
	client  *redis.Client
}

// Start runs a server and returns when it answers; the test's end kills it. extraArgs are appended to the command line, where the last
// setting of an option wins.
func Start(tb testing.TB, extraArgs ...string) *Server {
	tb.Helper()

	server := newServer(tb)
	if err := server.start(tb.Context(), func(port int) ([]string, error) {
		return append(server.defaultArgs(port), extraArgs...), nil
	}); err != nil {
		tb.Fatal(err)
	}

	return server
}

// newServer returns a server that was not started; the test's end kills it.
func newServer(tb testing.TB) *Server {
	tb.Helper()

	server := &Server{tb: tb, binary: binary(tb), dir: tb.TempDir()}
	tb.Cleanup(server.cleanup)

	return server
}

// defaultArgs is the command line of a server that keeps nothing on disk.
func (s *Server) defaultArgs(port int) []string {
	return []string{
		"--port", strconv.Itoa(port),
		"--dir", s.dir,
		"--save", "",
		"--appendonly", "no",
		"--bind", "127.0.0.1",
		"--daemonize", "no",
		"--protected-mode", "no",
		"--loglevel", "warning",
		"--repl-diskless-sync-delay", "0", // a first replica need not wait for a second
	}
}

// start launches the server on a free port, with the arguments that args makes for it.
func (s *Server) start(ctx context.Context, args func(port int) ([]string, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	// Between the check of a port and the server's bind, another process may take the port.
	const tries = 5
	for try := 1; ; try++ {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}

		s.Addr = loopback(port)
		if s.args, err = args(port); err != nil {
			return err
		}

		s.running, err = launch(ctx, s)
		if err == nil || try == tries || !isPortTaken(err) {
			return err
		}
	}
}

// Client returns the server's client, the same one on each call; the test's end closes it.
func (s *Server) Client() *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.client == nil {
		s.client = s.newClient()
	}

	return s.client
}

// Stop kills the server, as a crash would, and waits until it is gone. Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.stop()
}

// Restart stops a running server and starts it again on the same address. It comes back empty: without data and loaded scripts, and as a
// master. A node of a cluster still knows its cluster.
func (s *Server) Restart() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()

	s.stop()

	running, err := launch(s.tb.Context(), s)
	if err != nil {
		s.tb.Fatal(err)
	}

	s.running = running
}

// Pause freezes the server: connections stay open and nothing is answered, until Continue.
func (s *Server) Pause() {
	s.tb.Helper()

	pause, _ := pauseSignals()
	s.signal(pause, true)
}

// Continue undoes Pause; the server then answers pending requests.
func (s *Server) Continue() {
	s.tb.Helper()

	_, resume := pauseSignals()
	s.signal(resume, false)
}

// signal sends the process a signal that leaves it paused or not.
func (s *Server) signal(sig os.Signal, paused bool) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()

	if sig == nil {
		s.tb.Skip("redistest: this system cannot pause a process")
	}

	if s.running == nil {
		s.tb.Fatal("redistest: the server is stopped")
	}

	if err := s.running.cmd.Process.Signal(sig); err != nil {
		s.tb.Fatalf("redistest: %s: %v", sig, err)
	}

	s.paused = paused
}

// lives reports whether the server can answer: it was not stopped or paused, and has not ended by itself.
func (s *Server) lives() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.running == nil || s.paused {
		return false
	}

	select {
	case <-s.running.exited:
		return false
	default:
		return true
	}
}

func (s *Server) stop() {
	if s.running != nil {
		s.running.kill()
		s.running, s.paused = nil, false
	}
}

func (s *Server) cleanup() {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.client != nil {
		_ = s.client.Close()
	}

	s.stop()
}

func (s *Server) newClient() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                     s.Addr,
		TLSConfig:                s.tls,
		DisableIdentity:          true,
		DialTimeout:              time.Minute, // a busy server is not one that is gone
		ReadTimeout:              time.Minute,
		WriteTimeout:             time.Minute,
		MaintNotificationsConfig: noMaintNotifications(),
	})
}

func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
