package redistest

import (
	"os"
	"os/exec"
	"testing"
)

// binaryEnv names the environment variable that overrides the server binary.
const binaryEnv = "HEADWAY_REDIS_SERVER"

const installHint = "install redis-server, for example with `make redis` or `apt-get install redis-server`"

// binary returns the path of the server to run. Without one it skips the test, or fails it under CI=true.
func binary(tb testing.TB) string {
	tb.Helper()

	names := []string{"redis-server", "valkey-server"}
	if name := os.Getenv(binaryEnv); name != "" {
		names = []string{name}
	}

	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}

	if os.Getenv("CI") == "true" {
		tb.Fatalf("redistest: no %s in PATH: %s", names[0], installHint)
	}

	tb.Skipf("redistest: no %s in PATH: %s", names[0], installHint)

	return ""
}
