package recipes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The compiler rejects an option that means nothing to a function, and accepts every other.
func TestWrongOptionsDoNotCompile(t *testing.T) {
	t.Parallel()
	const dir = "./testdata/options"
	source, err := os.ReadFile(filepath.Join(dir, "options.go"))
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", dir).CombinedOutput() // -e: without a bound of ten errors
	require.Error(t, err, "everything compiles")
	rejected := make(map[int]string)
	for _, m := range regexp.MustCompile(`options\.go:(\d+):\d+: (.*)`).FindAllStringSubmatch(string(out), -1) {
		line, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		rejected[line] = m[2]
	}
	require.NotEmpty(t, rejected, "%s", out)
	for i, line := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(line, "// wrong") {
			require.Contains(t, rejected[i+1], "cannot use", line)
		} else {
			require.Empty(t, rejected[i+1], line)
		}
	}
}
