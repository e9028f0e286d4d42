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

	t      testing.TB
	binary string
	args   []string
	dir    string

	mu      sync.Mutex
	running *process // nil when stopped
	client  *redis.Client
}

// Start runs a server and returns when it answers; the test's end kills it. extraArgs are appended to the
// command line, where the last setting of an option wins.
func Start(t testing.TB, extraArgs ...string) *Server {
	t.Helper()

	server := &Server{t: t, binary: binary(t), dir: t.TempDir()}
	t.Cleanup(server.cleanup)

	server.mu.Lock()
	defer server.mu.Unlock()

	// Between the moment a port is seen to be free and the moment the server binds it, another process
	// may take it.
	const tries = 5
	for try := 1; ; try++ {
		port, err := freePort(t.Context())
		if err != nil {
			t.Fatal(err)
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

		server.running, err = launch(t.Context(), server)
		if err == nil {
			return server
		}

		if try == tries || !isPortTaken(err) {
			t.Fatal(err)
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
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()

	s.stop()

	running, err := launch(s.t.Context(), s)
	if err != nil {
		s.t.Fatal(err)
	}

	s.running = running
}

// Pause freezes the server: connections stay open and nothing is answered, until Continue.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(pauseSignal)
}

// Continue undoes Pause; the server then answers what it was sent meanwhile.
func (s *Server) Continue() {
	s.t.Helper()
	s.signal(continueSignal)
}

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()

	if sig == nil {
		s.t.Skip("redistest: this system cannot pause a process")
	}

	if s.running == nil {
		s.t.Fatal("redistest: the server is stopped")
	}

	if err := s.running.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redistest: %s: %v", sig, err)
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
