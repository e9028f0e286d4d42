package redistest

import (
	"context"
	"os"
	"sync"
	"testing"
)

// shared is the server that tests of one process share.
var shared struct { //nolint:gochecknoglobals // it is shared by all tests
	sync.Mutex

	server *Server
	done   bool // the tests are over
}

// Shared returns the one server that the tests of a package share, and starts it if it does not run yet. It is for tests that
// only need some Redis: they use keys of their own, and do nothing to the server. [Sharing] stops it. Like [Start], it skips
// the test where there is no server binary, or fails it with CI=true.
func Shared(tb testing.TB) *Server {
	tb.Helper()

	path := binary(tb)

	shared.Lock()
	defer shared.Unlock()

	if shared.done {
		tb.Fatal("redistest: the tests are over: a TestMain calls Sharing")
	}

	if shared.server != nil {
		return shared.server
	}

	dir, err := os.MkdirTemp("", "redistest") //nolint:usetesting // it outlives the test
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}

	server := &Server{tb: tb, binary: path, dir: dir}
	if err := server.start(context.WithoutCancel(tb.Context()), func(port int) ([]string, error) {
		return server.defaultArgs(port), nil
	}); err != nil {
		_ = os.RemoveAll(dir)

		tb.Fatal(err)
	}

	shared.server = server

	return server
}

// TestingM runs tests: a [testing.M].
type TestingM interface{ Run() int }

// Sharing returns tests after which the shared server, if there is one, is stopped. A TestMain of a package that uses [Shared]
// runs them: goleak.VerifyTestMain(redistest.Sharing(m)).
func Sharing(m TestingM) TestingM { return sharing{m} }

type sharing struct{ tests TestingM }

// Run runs the tests.
func (s sharing) Run() int {
	code := s.tests.Run()

	shared.Lock()
	defer shared.Unlock()

	shared.done = true
	if server := shared.server; server != nil {
		server.cleanup()
		_ = os.RemoveAll(server.dir)
	}

	return code
}
