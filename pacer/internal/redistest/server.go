package redistest

import (
	"os"
	"strconv"
	"sync"
	"testing"

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

	mu      sync.Mutex
	running *process // nil when stopped
	client  *redis.Client
}

// Start runs a server and returns when it answers; the test's end kills it. extraArgs are appended to the
// command line, where the last setting of an option wins.
func Start(tb testing.TB, extraArgs ...string) *Server {
	tb.Helper()

	server := &Server{tb: tb, binary: binary(tb), dir: tb.TempDir()}
	tb.Cleanup(server.cleanup)

	server.mu.Lock()
	defer server.mu.Unlock()

	// Between the moment a port is seen to be free and the moment the server binds it, another process
	// may take it.
	const tries = 5
	for try := 1; ; try++ {
		port, err := freePort(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}

		server.Addr = loopback(port)
		server.args = append([]string{
			"--port", strconv.Itoa(port),
			"--dir", server.dir,
			"--save", "",
			"--appendonly", "no",
			"--bind", "127.0.0.1",
			"--daemonize", "no",
			"--protected-mode", "no",
			"--loglevel", "warning",
		}, extraArgs...)

		server.running, err = launch(tb.Context(), server)
		if err == nil {
			return server
		}

		if try == tries || !isPortTaken(err) {
			tb.Fatal(err)
		}
	}
}

// Client returns the server's client, the same one on each call; the test's end closes it.
func (s *Server) Client() *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.client == nil {
		s.client = newClient(s.Addr)
	}

	return s.client
}

// Stop kills the server, as a crash would, and waits until it is gone. Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.stop()
}

// Restart stops the server if it runs and starts it again on the same address. It comes back empty: no
// data, no loaded scripts.
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
	s.signal(pause)
}

// Continue undoes Pause; the server then answers what it was sent meanwhile.
func (s *Server) Continue() {
	s.tb.Helper()

	_, resume := pauseSignals()
	s.signal(resume)
}

func (s *Server) signal(sig os.Signal) {
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
}

func (s *Server) stop() {
	if s.running != nil {
		s.running.kill()
		s.running = nil
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

func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                     addr,
		DisableIdentity:          true,
		MaintNotificationsConfig: noMaintNotifications(),
	})
}

func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
